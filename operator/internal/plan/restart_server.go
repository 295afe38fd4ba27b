package plan

import "fmt"

// NeverRestarts says why a member is never restarted: its data in memory has no other copy. Empty: it may be
// restarted, if MayNotRestart allows it.
func NeverRestarts(o Observed, m Member) string {
	switch {
	case m.ID.Kind != Server:
		return ""
	case o.ReplicationFactor == 0:
		return "a server without replicas loses what it holds in memory when it restarts (spec.replicationFactor is 0)"
	case len(o.wantedServers()) < 2:
		return "the only server loses what it holds in memory when it restarts: no other has replicas of its log"
	}
	return ""
}

// mayNotRestartServer says why a server must wait until other servers can take its data over (the
// whole-cluster rule). A server that serves no data waits only for others that are starting or ending.
func mayNotRestartServer(o Observed, m Member) string {
	serves := m.Up || m.Pod.Ready
	switch why := NeverRestarts(o, m); {
	case why != "":
		return why
	case !o.Connected:
		return "the coordinator does not answer"
	case m.Volume != VolumePresent:
		return "its volume claim is deleted or its volume is lost, and the server has it open"
	case !serves:
		return join(join(notWell(o, Etcd), notWell(o, Coordinator)), missing(o, Server))
	case m.Replicas == 0:
		return "it has not said yet that its log has replicas"
	}
	return join(join(join(notWell(o, Etcd), notWell(o, Coordinator)), notUp(o)), o.NotWhole)
}

// notUp names the servers that do not serve, or that the coordinator does not list as up.
func notUp(o Observed) string {
	text := notWell(o, Server)
	for _, m := range o.Members {
		if m.ID.Kind == Server && m.Pod.Serves() && !m.Up {
			text = join(text, fmt.Sprintf("%s is not listed as up", m.ID))
		}
	}
	return text
}

// wantedServers are the servers that shall exist, as Decide finds them.
func (o *Observed) wantedServers() []int32 {
	var servers []Member
	for _, m := range o.Members {
		if m.ID.Kind == Server {
			servers = append(servers, m)
		}
	}
	return wantedServers(max(o.Wanted, o.ReplicationFactor+1), servers)
}
