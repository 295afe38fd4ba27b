// Package fakeadmin is an in-process coordinator admin server for tests: a real gRPC server of the
// admin protocol whose state a test sets.
package fakeadmin

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ramcloud.dev/client/adminpb"
)

// Server is the fake. Its methods may be called from any goroutine.
type Server struct {
	adminpb.UnimplementedAdminServer

	address string
	grpc    *grpc.Server

	mutex             sync.Mutex
	changed           *sync.Cond
	revision          uint64
	log               []*adminpb.WatchEvent // every change, in order
	servers           map[uint64]*adminpb.Server
	tables            map[string]*adminpb.Table
	recoveries, ended []*adminpb.Recovery
	uuid              string
	memoryAsked       []MemoryAsked
	slowLogs, untold  bool
	watches           int
	closed            bool
}

// Start listens on a free loopback port.
func Start() (*Server, error) { return StartAt("127.0.0.1:0") }

// StartAt listens on an address, for example that of a server that was stopped.
func StartAt(address string) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{address: listener.Addr().String(), grpc: grpc.NewServer(), uuid: "00000000-0000-4000-8000-000000000001",
		servers: map[uint64]*adminpb.Server{}, tables: map[string]*adminpb.Table{}}
	s.changed = sync.NewCond(&s.mutex)
	adminpb.RegisterAdminServer(s.grpc, s)
	go func() { _ = s.grpc.Serve(listener) }()
	return s, nil
}

// Address is host:port.
func (s *Server) Address() string { return s.address }

// Stop closes all connections at once, as a crash would.
func (s *Server) Stop() {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	s.changed.Broadcast()
	s.grpc.Stop()
}

// Watches is how many Watch streams are open.
func (s *Server) Watches() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.watches
}

// SetServer adds or changes a server; with state REMOVED it is forgotten.
func (s *Server) SetServer(server *adminpb.Server) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	server = proto.CloneOf(server)
	if server.State == adminpb.ServerState_SERVER_REMOVED {
		delete(s.servers, server.Id)
	} else {
		s.servers[server.Id] = server
	}
	s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Server{Server: proto.CloneOf(server)}})
	s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Status{Status: s.status()}})
}

// SetTable adds or changes a table.
func (s *Server) SetTable(table *adminpb.Table) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.tables[table.Name] = proto.CloneOf(table)
	s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Table{Table: proto.CloneOf(table)}})
	s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Status{Status: s.status()}})
}

// SetRecoveries sets the recoveries; those in the state DONE have ended.
func (s *Server) SetRecoveries(recoveries ...*adminpb.Recovery) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.recoveries, s.ended = nil, nil
	for _, r := range recoveries {
		if r.State == "DONE" {
			s.ended = append(s.ended, proto.CloneOf(r))
			continue
		}
		s.recoveries = append(s.recoveries, proto.CloneOf(r))
	}
	s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Status{Status: s.status()}})
}

// MemoryAsked is a request for another size of a server's log.
type MemoryAsked struct {
	Server uint64
	Bytes  uint64
}

// MemoryAsked are the accepted requests, in order.
func (s *Server) MemoryAsked() []MemoryAsked {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.memoryAsked)
}

// SetSlowLogs: logs keep their size after a request, until they are not slow any more.
func (s *Server) SetSlowLogs(slow bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.slowLogs = slow
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		s.settleLog(s.servers[id])
	}
}

// SetUntold: the watch stream does not report requested sizes, until it is set back.
func (s *Server) SetUntold(untold bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.untold = untold
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		s.tell(s.servers[id])
	}
}

func (s *Server) tell(server *adminpb.Server) {
	if !s.untold {
		s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Server{Server: proto.CloneOf(server)}})
	}
}

// Accepted sizes of logs.
const (
	LeastLog = 64 << 20
	MostLog  = 16 << 30
)

// settleLog brings a log to its target.
func (s *Server) settleLog(server *adminpb.Server) {
	stats := server.GetStats()
	if s.slowLogs || stats.GetLogBytesTarget() == 0 || stats.LogBytesTotal == stats.LogBytesTarget && stats.LogBytesHeld == stats.LogBytesTarget {
		return
	}
	stats.LogBytesTotal, stats.LogBytesHeld = stats.LogBytesTarget, stats.LogBytesTarget
	s.tell(server)
}

// SetServerMemory implements the admin protocol.
func (s *Server) SetServerMemory(_ context.Context, request *adminpb.SetServerMemoryRequest) (*adminpb.SetServerMemoryResponse, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	server := s.servers[request.ServerId]
	if server == nil {
		return nil, status.Errorf(codes.NotFound, "server %d does not exist", request.ServerId)
	}
	stats := server.GetStats()
	if stats.GetLogBytesTarget() == 0 {
		return nil, status.Error(codes.Unimplemented, "the server cannot be resized")
	}
	if bytes := request.LogBytes; bytes != 0 {
		if bytes < LeastLog || bytes > MostLog {
			return nil, status.Errorf(codes.InvalidArgument, "log-memory %d: accepted are %d to %d (--log-memory-max)", bytes, LeastLog, int64(MostLog))
		}
		stats.LogBytesTarget = bytes / (8 << 20) * (8 << 20)
		s.memoryAsked = append(s.memoryAsked, MemoryAsked{request.ServerId, stats.LogBytesTarget})
		s.tell(server)
		s.settleLog(server)
	}
	return &adminpb.SetServerMemoryResponse{TargetBytes: stats.LogBytesTarget, LimitBytes: stats.LogBytesTotal, HeldBytes: stats.LogBytesHeld,
		LeastBytes: LeastLog, MostBytes: MostLog, Done: stats.LogBytesTotal == stats.LogBytesTarget && stats.LogBytesHeld == stats.LogBytesTarget}, nil
}

// SetUUID makes it the coordinator of another cluster.
func (s *Server) SetUUID(uuid string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.uuid = uuid
	s.append(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Status{Status: s.status()}})
}

func (s *Server) append(event *adminpb.WatchEvent) {
	s.revision++
	event.Revision = s.revision
	s.log = append(s.log, event)
	s.changed.Broadcast()
}

func (s *Server) status() *adminpb.ClusterStatus {
	out := &adminpb.ClusterStatus{
		ClusterName: "fake", ClusterUuid: s.uuid, Version: "0.0.0-fake", Term: 1,
		Revision: s.revision, Tables: uint32(len(s.tables)), Replication: &adminpb.ReplicationSummary{}, Health: "HEALTHY",
	}
	for _, r := range s.recoveries {
		out.Recoveries = append(out.Recoveries, proto.CloneOf(r))
	}
	for _, r := range s.ended {
		out.RecoveriesEnded = append(out.RecoveriesEnded, proto.CloneOf(r))
	}
	for _, server := range s.servers {
		if server.State != adminpb.ServerState_SERVER_UP {
			out.ServersCrashed++
			continue
		}
		out.ServersUp++
		stats := server.GetStats()
		out.Objects += stats.GetObjects()
		out.LogBytesUsed += stats.GetLogBytesUsed()
		out.LogBytesTotal += stats.GetLogBytesTotal()
		out.Replication.ReplicasWanted = max(out.Replication.ReplicasWanted, stats.GetReplicasWanted())
		out.Replication.Segments += stats.GetSegments()
		out.Replication.SegmentsFullyReplicated += stats.GetSegmentsFullyReplicated()
		out.Replication.SegmentsUnderReplicated += stats.GetSegmentsUnderReplicated()
	}
	for _, table := range s.tables {
		for _, tablet := range table.Tablets {
			out.Tablets++
			if tablet.State == adminpb.TabletState_TABLET_UNAVAILABLE {
				out.TabletsUnavailable++
				out.Health = "DEGRADED"
			}
		}
	}
	return out
}

// GetStatus implements the admin protocol.
func (s *Server) GetStatus(context.Context, *adminpb.GetStatusRequest) (*adminpb.ClusterStatus, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.status(), nil
}

// ListServers implements the admin protocol.
func (s *Server) ListServers(context.Context, *adminpb.ListServersRequest) (*adminpb.ListServersResponse, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	out := &adminpb.ListServersResponse{}
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		out.Servers = append(out.Servers, proto.CloneOf(s.servers[id]))
	}
	return out, nil
}

// ListTables implements the admin protocol.
func (s *Server) ListTables(_ context.Context, request *adminpb.ListTablesRequest) (*adminpb.ListTablesResponse, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	out := &adminpb.ListTablesResponse{}
	for _, name := range slices.Sorted(maps.Keys(s.tables)) {
		if request.Name == "" || request.Name == name {
			out.Tables = append(out.Tables, proto.CloneOf(s.tables[name]))
		}
	}
	if request.Name != "" && len(out.Tables) == 0 {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("table '%s' does not exist", request.Name))
	}
	return out, nil
}

// Watch implements the admin protocol: a snapshot, then every change.
func (s *Server) Watch(_ *adminpb.WatchRequest, stream grpc.ServerStreamingServer[adminpb.WatchEvent]) error {
	s.mutex.Lock()
	events := []*adminpb.WatchEvent{{Revision: s.revision, Event: &adminpb.WatchEvent_Status{Status: s.status()}}}
	for _, server := range s.servers {
		events = append(events, &adminpb.WatchEvent{Revision: s.revision, Event: &adminpb.WatchEvent_Server{Server: proto.CloneOf(server)}})
	}
	for _, table := range s.tables {
		events = append(events, &adminpb.WatchEvent{Revision: s.revision, Event: &adminpb.WatchEvent_Table{Table: table}})
	}
	events = append(events, &adminpb.WatchEvent{Revision: s.revision, Event: &adminpb.WatchEvent_SnapshotComplete{SnapshotComplete: true}})
	next := len(s.log)
	s.watches++
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		s.watches--
		s.mutex.Unlock()
	}()
	stop := context.AfterFunc(stream.Context(), func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	for {
		for _, event := range events {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		s.mutex.Lock()
		for next == len(s.log) && !s.closed && stream.Context().Err() == nil {
			s.changed.Wait()
		}
		events, next = slices.Clone(s.log[next:]), len(s.log)
		done := s.closed || stream.Context().Err() != nil
		s.mutex.Unlock()
		if done {
			return status.Error(codes.Unavailable, "stopping")
		}
	}
}
