package coordinator

// TellsLive says whether a message with these bytes of hash tables also has live bytes. Servers of an earlier version
// send neither, and every server has a hash table. Their 0 live bytes would look like a server without data.
func TellsLive(hashTableBytes uint64) bool { return hashTableBytes > 0 }
