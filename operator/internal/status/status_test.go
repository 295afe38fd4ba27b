package status

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/pkg/adminpb"
)

const normal, creating, gone = adminpb.TabletState_TABLET_NORMAL, adminpb.TabletState_TABLET_CREATING, adminpb.TabletState_TABLET_UNAVAILABLE

func picture(tablets ...adminpb.TabletState) *coordinator.Picture {
	table := &adminpb.Table{Id: 1, Name: "t"}
	for i, state := range tablets {
		table.Tablets = append(table.Tablets, &adminpb.Tablet{ServerId: uint64(i + 1), State: state})
	}
	return &coordinator.Picture{Connected: true, Tables: map[string]*adminpb.Table{"t": table},
		Status: &adminpb.ClusterStatus{ClusterUuid: "u", LogBytesUsed: 3 << 20, LogBytesTotal: 512 << 20,
			Replication: &adminpb.ReplicationSummary{Segments: 5, SegmentsFullyReplicated: 5}}}
}

func server(name string, state ramcloudv1.ServerState) ramcloudv1.RAMCloudServer {
	s := ramcloudv1.RAMCloudServer{Status: ramcloudv1.RAMCloudServerStatus{State: state, StateReason: "why"}}
	s.Name = name
	s.Status.Placement.FailureDomain = "d-" + name
	return s
}

func input() Input {
	c := &ramcloudv1.RAMCloudCluster{}
	c.Name, c.Generation = "demo", 4
	c.Spec.ReplicationFactor, c.Spec.FailureDomain = 1, ramcloudv1.FailureDomainNode
	return Input{Cluster: c, Picture: picture(normal, normal), Decision: plan.Decision{Servers: []int32{0, 1}},
		Servers: []ramcloudv1.RAMCloudServer{server("demo-server-0", ramcloudv1.ServerUp), server("demo-server-1", ramcloudv1.ServerUp)},
		Now:     metav1.NewTime(time.Unix(1000, 0))}
}

func TestConditions(t *testing.T) {
	lost := &coordinator.Picture{Problem: "nobody there"}
	for _, test := range []struct {
		name                         string
		change                       func(*Input)
		ready, degraded, progressing string // reason; upper-case first letter with + for True
		message                      string // of Ready
	}{
		{"all is well", func(*Input) {}, "+AllServersUp", "-AsExpected", "-Settled", "2 servers up, 2 of 2 tablets served"},
		{"a table is being created", func(in *Input) { in.Picture = picture(normal, creating) },
			"+AllServersUp", "-AsExpected", "-Settled", "2 servers up"},
		{"the first start", func(in *Input) { in.Picture = lost; in.Servers = nil },
			"-CoordinatorNotAnswering", "-AsExpected", "+Starting", "nobody there"},
		{"a coordinator that went away", func(in *Input) { in.Picture = lost; in.Cluster.Status.Coordinator.ClusterUUID = "u" },
			"-CoordinatorNotAnswering", "+CoordinatorNotAnswering", "+Starting", "nobody there"},
		{"a former cluster that ends", func(in *Input) {
			in.Picture, in.Servers, in.Former = lost, nil, []string{"pod demo-server-0", "Service demo"}
		}, "-FormerClusterNotGone", "-AsExpected", "+FormerClusterNotGone", "there still are pod demo-server-0, Service demo"},
		{"a server that starts", func(in *Input) { in.Servers[1].Status.State = ramcloudv1.ServerNotEnlisted },
			"-ServersNotUp", "-AsExpected", "+Starting", "1 of 2 servers are up, waiting for demo-server-1 (why)"},
		{"a server that has no record yet", func(in *Input) { in.Decision.Servers = []int32{0, 1, 2} },
			"-ServersNotUp", "-AsExpected", "+Starting", "2 of 3 servers are up"},
		{"lost data", func(in *Input) { in.Picture = picture(normal, gone) },
			"-TabletsUnavailable", "+TabletsUnavailable", "-Settled", "1 tablets are not served (1 of table 't'), of 1 servers"},
		{"missing replicas", func(in *Input) {
			in.Picture.Status.Replication.SegmentsUnderReplicated = 2
			in.Picture.UnderReplicatedSince = in.Now.Add(-UnderReplicatedGrace)
		}, "+AllServersUp", "+UnderReplicated", "-Settled", ""},
		{"a segment that was just opened", func(in *Input) {
			in.Picture.Status.Replication.SegmentsUnderReplicated = 1
			in.Picture.UnderReplicatedSince = in.Now.Add(-time.Second)
		}, "+AllServersUp", "-AsExpected", "-Settled", ""},
		{"failing pods", func(in *Input) { in.Decision.Failing = []string{"server 1 failed"} },
			"+AllServersUp", "+PodsFailing", "-Settled", ""},
		{"a foreign volume", func(in *Input) { in.Decision.Foreign = []string{"data-x"} },
			"+AllServersUp", "+VolumeNotOurs", "-Settled", ""},
		{"a network that is not there yet", func(in *Input) { in.Refused = "not yet" }, "+AllServersUp", "+NetworkNotSupported", "-Settled", ""},
		{"lost metadata", func(in *Input) { in.Decision.MetadataLost = []string{"coordinator 0"} },
			"+AllServersUp", "+MetadataVolumeLost", "-Settled", ""},
		{"a lost volume", func(in *Input) { in.Decision.VolumesLost = []string{"the volume of server 1 is lost"} },
			"+AllServersUp", "+VolumeLost", "-Settled", ""},
		{"too few domains", func(in *Input) { in.Servers[1].Status.Placement.FailureDomain = "d-demo-server-0" },
			"+AllServersUp", "+TooFewFailureDomains", "-Settled", ""},
		{"pods without their zone", func(in *Input) {
			in.Cluster.Spec.FailureDomain = ramcloudv1.FailureDomainZone
			in.Servers[1].Status.Placement.FailureDomain = "demo-server-1"
		}, "+AllServersUp", "+FailureDomainMissing", "-Settled", ""},
		{"a rolling restart", func(in *Input) { in.Decision.Rolling = "restart 'x': 3 to do" },
			"+AllServersUp", "-AsExpected", "+RollingRestart", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input()
			test.change(&in)
			out := Cluster(in)
			for kind, want := range map[string]string{"Ready": test.ready, "Degraded": test.degraded, "Progressing": test.progressing, "ScaleBlocked": "-NotBlocked", "Paused": "-NotPaused"} {
				c := meta.FindStatusCondition(out.Conditions, kind)
				sign := map[metav1.ConditionStatus]string{metav1.ConditionTrue: "+", metav1.ConditionFalse: "-"}[c.Status]
				if sign+c.Reason != want || c.ObservedGeneration != 4 || c.Message == "" {
					t.Errorf("%s is %s%s (%s), want %s", kind, sign, c.Reason, c.Message, want)
				}
				if kind == "Ready" && !strings.Contains(c.Message, test.message) {
					t.Errorf("Ready says %q, want %q in it", c.Message, test.message)
				}
			}
		})
	}
}

func TestTheSameInputGivesTheSameStatus(t *testing.T) {
	in := input()
	in.Cluster.Status = Cluster(in)
	in.Now = metav1.NewTime(time.Unix(2000, 0))
	if again := Cluster(in); !equality.Semantic.DeepEqual(in.Cluster.Status, again) {
		t.Errorf("a later look changes the status:\n%+v\n%+v", in.Cluster.Status, again)
	}
}

func TestLookAgain(t *testing.T) {
	in := input()
	if got := LookAgain(in.Picture, in.Now.Time); got != 0 {
		t.Errorf("all is well, look again in %s", got)
	}
	in.Picture.UnderReplicatedSince = in.Now.Add(-10 * time.Second)
	if got := LookAgain(in.Picture, in.Now.Time); got != 20*time.Second {
		t.Errorf("look again in %s", got)
	}
	in.Picture.UnderReplicatedSince = in.Now.Add(-time.Hour)
	if got := LookAgain(in.Picture, in.Now.Time); got != 0 {
		t.Errorf("it was told, look again in %s", got)
	}
}

func TestScaleBlocked(t *testing.T) {
	in := input()
	in.Decision.Blocked = "cannot"
	c := meta.FindStatusCondition(Cluster(in).Conditions, ramcloudv1.ConditionScaleBlocked)
	if c.Status != metav1.ConditionTrue || c.Reason != ramcloudv1.ReasonScaleInNotSupported || c.Message != "cannot" {
		t.Errorf("%+v", c)
	}
}

func TestMembersAndPause(t *testing.T) {
	in := input()
	in.Cluster.Spec.Pause = true
	in.Cluster.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	for i, name := range []string{"demo-etcd-0", "demo-etcd-1", "demo-etcd-2"} {
		in.Members = append(in.Members, Member{Kind: plan.Etcd, Pod: name, Exists: true, Ready: i < 2})
	}
	in.Members = append(in.Members, Member{Kind: plan.Coordinator, Pod: "demo-coordinator-0", Exists: true, Failure: &ramcloudv1.PodFailure{Count: 2}})
	out := Cluster(in)
	if out.Etcd.Replicas != 3 || out.Etcd.Ready != 2 || out.Etcd.Formed || out.Coordinator.Replicas != 1 || out.Coordinator.Ready != 0 ||
		len(out.Coordinator.LastFailures) != 1 || out.Coordinator.LastFailures[0].Pod != "demo-coordinator-0" {
		t.Errorf("%+v %+v", out.Etcd, out.Coordinator)
	}
	if c := meta.FindStatusCondition(out.Conditions, ramcloudv1.ConditionPaused); c.Status != metav1.ConditionTrue || c.Reason != ramcloudv1.ReasonPaused {
		t.Errorf("%+v", c)
	}
	in.Members[2].Ready = true
	in.Cluster.Status = Cluster(in)
	in.Members[2].Ready = false
	if out := Cluster(in); !out.Etcd.Formed || out.Etcd.Ready != 2 {
		t.Errorf("an etcd that was complete once: %+v", out.Etcd)
	}
}

func TestPendingRestartIsBounded(t *testing.T) {
	in := input()
	in.Servers[0].Status.PendingRestart = true
	in.Pending = []ramcloudv1.PendingRestart{{Pod: "demo-coordinator-0"}, {Pod: "demo-server-0"}}
	out := Cluster(in)
	c := meta.FindStatusCondition(out.Conditions, ramcloudv1.ConditionProgressing)
	if !strings.Contains(c.Message, "pods of 1 servers differ") || !strings.Contains(c.Message, "1 pods of coordinators or etcd differ") {
		t.Errorf("%s", c.Message)
	}
	in.Pending = make([]ramcloudv1.PendingRestart, 100)
	if n := len(Cluster(in).PendingRestart); n != maxPending {
		t.Errorf("%d are listed", n)
	}
}

func TestServer(t *testing.T) {
	p := picture(normal, normal)
	p.Servers = map[uint64]*adminpb.Server{
		1: {Id: 1, Name: "a", State: adminpb.ServerState_SERVER_UP, Locator: "l", FailureDomain: "d", Stats: &adminpb.ServerStats{LogBytesUsed: 1, LogBytesTotal: 256 << 20}},
		2: {Id: 2, Name: "b", State: adminpb.ServerState_SERVER_CRASHED},
	}
	up := Server(ServerInput{Name: "a", Picture: p, Node: "n", PodProblem: "ignored when up"})
	if up.State != ramcloudv1.ServerUp || up.StateReason != "" || up.Incarnation != "1" || up.Tablets != 1 || up.Placement.Node != "n" ||
		up.Placement.FailureDomain != "d" || up.MemoryUsed.String() != "1Ki" || up.MemoryTotal.String() != "256Mi" {
		t.Errorf("up: %+v", up)
	}
	for name, want := range map[string]ramcloudv1.ServerState{"b": ramcloudv1.ServerCrashed, "c": ramcloudv1.ServerNotEnlisted} {
		got := Server(ServerInput{Name: name, Picture: p, PodProblem: "no pod", Before: ramcloudv1.RAMCloudServerStatus{Incarnation: "7"}})
		if got.State != want || !strings.HasSuffix(got.StateReason, "; no pod") || name == "c" && got.Incarnation != "7" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Server(ServerInput{Name: "a", Picture: &coordinator.Picture{}}); got.State != ramcloudv1.ServerUnknown {
		t.Errorf("without a coordinator: %+v", got)
	}
}
