// Package coordinator follows the coordinators of all clusters through their admin API. It is the
// operator's only source of truth about servers, tables and data.
package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"ramcloud.dev/client/adminpb"
)

// Picture is a coordinator's last known state of its cluster. A picture is immutable.
type Picture struct {
	// Connected: the coordinator answers now. Otherwise Problem says why not; the rest is nil.
	Connected bool
	Problem   string

	// Heard: the coordinator has answered since this operator began to watch it, at Since. Before that, this operator
	// knows nothing, which is different from a coordinator that stopped answering (the silence rule).
	Heard bool
	Since time.Time

	Status  *adminpb.ClusterStatus
	Servers map[uint64]*adminpb.Server
	Tables  map[string]*adminpb.Table

	// UnderReplicatedSince is the time since when every report has segments that lack replicas; zero: none lacks any. A
	// segment that was just opened lacks replicas for a moment.
	UnderReplicatedSince time.Time
	// UnavailableSince is the time since when every report has tablets that are not served; zero: all are served. During
	// the recovery of a crashed server some are not served for a moment.
	UnavailableSince time.Time
	// ChangedAt is when a server last enlisted, left or was marked as crashed, or when the coordinator last reported a
	// recovery or a tablet that is not served.
	ChangedAt time.Time
}

// ServerByName is the newest incarnation of the server with this name, the live one first; nil if the
// coordinator knows none.
func (p *Picture) ServerByName(name string) *adminpb.Server {
	var best *adminpb.Server
	for _, s := range p.Servers {
		if s.Name == name && (best == nil || newer(s, best)) {
			best = s
		}
	}
	return best
}

func newer(a, b *adminpb.Server) bool {
	up := func(s *adminpb.Server) bool { return s.State == adminpb.ServerState_SERVER_UP }
	if up(a) != up(b) {
		return up(a)
	}
	return cmp.Compare(a.EnlistedAtMs, b.EnlistedAtMs)*2+cmp.Compare(a.Id, b.Id) > 0
}

// Tablets counts the tablets that a server owns.
func (p *Picture) Tablets(serverID uint64) int {
	n := 0
	for _, table := range p.Tables {
		for _, tablet := range table.Tablets {
			if tablet.ServerId == serverID {
				n++
			}
		}
	}
	return n
}

// TabletCounts counts all tablets, and those that are served or (still empty) being created.
func (p *Picture) TabletCounts() (all, served int) {
	for _, table := range p.Tables {
		for _, tablet := range table.Tablets {
			all++
			if tablet.State != adminpb.TabletState_TABLET_UNAVAILABLE {
				served++
			}
		}
	}
	return all, served
}

// Crashed counts servers that the coordinator lists as crashed.
func (p *Picture) Crashed() int {
	n := 0
	for _, s := range p.Servers {
		if s.State == adminpb.ServerState_SERVER_CRASHED {
			n++
		}
	}
	return n
}

// TableNames are the names of all tables, sorted.
func (p *Picture) TableNames() []string { return slices.Sorted(maps.Keys(p.Tables)) }

// change says how much an event matters.
type change int

const (
	changeNone    change = iota
	changeFigures        // only load figures: reported now and then
	changeState          // servers, tables, health: reported at once
)

// draft is the picture as it is being received.
type draft struct {
	status   *adminpb.ClusterStatus
	servers  map[uint64]*adminpb.Server
	tables   map[string]*adminpb.Table
	complete bool

	underReplicatedSince, unavailableSince, changedAt time.Time
}

func newDraft() *draft {
	return &draft{servers: map[uint64]*adminpb.Server{}, tables: map[string]*adminpb.Table{}}
}

// add applies one event of the stream, at time now.
func (d *draft) add(event *adminpb.WatchEvent, now time.Time) change {
	switch e := event.Event.(type) {
	case *adminpb.WatchEvent_Status:
		how := compare(d.status, e.Status, statusWithoutFigures)
		d.status = e.Status
		if (&Picture{Status: e.Status}).running() != nil || e.Status.GetTabletsUnavailable() > 0 {
			d.changedAt = now
		}
		since(&d.underReplicatedSince, e.Status.GetReplication().GetSegmentsUnderReplicated() > 0, now)
		since(&d.unavailableSince, e.Status.GetTabletsUnavailable() > 0, now)
		return how
	case *adminpb.WatchEvent_Server:
		how := compare(d.servers[e.Server.GetId()], e.Server, serverWithoutFigures)
		if e.Server.GetState() == adminpb.ServerState_SERVER_REMOVED {
			delete(d.servers, e.Server.GetId())
		} else {
			d.servers[e.Server.GetId()] = e.Server
		}
		if how == changeState {
			d.changedAt = now
		}
		return how
	case *adminpb.WatchEvent_Table:
		how := compare(d.tables[e.Table.GetName()], e.Table, func(t *adminpb.Table) *adminpb.Table { return t })
		d.tables[e.Table.GetName()] = e.Table
		return how
	case *adminpb.WatchEvent_TableDropped:
		delete(d.tables, e.TableDropped)
		return changeState
	case *adminpb.WatchEvent_SnapshotComplete:
		d.complete = true
		return changeState
	}
	return changeNone // an event of a newer coordinator
}

// since records when a state began; zero: it does not hold.
func since(when *time.Time, is bool, now time.Time) {
	switch {
	case !is:
		*when = time.Time{}
	case when.IsZero():
		*when = now
	}
}

func (d *draft) picture() *Picture {
	return &Picture{Connected: true, Status: d.status, Servers: maps.Clone(d.servers), Tables: maps.Clone(d.tables),
		UnderReplicatedSince: d.underReplicatedSince, UnavailableSince: d.unavailableSince, ChangedAt: d.changedAt}
}

func compare[M proto.Message](before, after M, essence func(M) M) change {
	if proto.Equal(before, after) {
		return changeNone
	}
	if !before.ProtoReflect().IsValid() || !proto.Equal(essence(before), essence(after)) {
		return changeState
	}
	return changeFigures
}

// statusWithoutFigures removes what changes with load: every new segment lacks replicas for a moment, which the
// coordinator's health text mentions, and the progress of a recovery changes with every page.
func statusWithoutFigures(s *adminpb.ClusterStatus) *adminpb.ClusterStatus {
	c := proto.CloneOf(s)
	c.Revision, c.Objects, c.LogBytesUsed, c.Replication, c.Health, c.Reasons = 0, 0, 0, nil, "", nil
	c.Memory, c.Cleaner = nil, nil
	for _, r := range c.Recoveries {
		r.BytesTotal, r.BytesDone, r.Entries = 0, 0, 0
		for _, part := range r.Partitions {
			part.BytesReplayed = 0
		}
		if r.Memory != nil {
			r.Memory.NeededBytes = 0
		}
	}
	return c
}

func serverWithoutFigures(s *adminpb.Server) *adminpb.Server {
	c := proto.CloneOf(s)
	c.Stats = nil
	return c
}
