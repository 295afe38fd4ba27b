package coordinator

// TellsLive says whether live bytes are told beside these bytes of hash tables. Servers of an earlier version tell neither,
// and each server has a hash table. Their 0 would look like a server without data.
func TellsLive(hashTableBytes uint64) bool { return hashTableBytes > 0 }
