package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
)

const normal, creating, gone = adminpb.TabletState_TABLET_NORMAL, adminpb.TabletState_TABLET_CREATING, adminpb.TabletState_TABLET_UNAVAILABLE

func picture(tablets ...adminpb.TabletState) *coordinator.Picture {
	table := &adminpb.Table{Id: 1, Name: "t"}
	for i, state := range tablets {
		table.Tablets = append(table.Tablets, &adminpb.Tablet{ServerId: uint64(i + 1), State: state})
	}
	return &coordinator.Picture{Connected: true, Tables: map[string]*adminpb.Table{"t": table},
		Status: &adminpb.ClusterStatus{ClusterUuid: "u", LogBytesUsed: 3 << 20, LogBytesTotal: 512 << 20,
			Memory:      &adminpb.Memory{LiveBytes: 2 << 20, HashTableBytes: 32 << 20},
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
	c.Spec.ReplicationFactor, c.Spec.TopologyKey = 1, corev1.LabelHostname
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
		{"lost data", func(in *Input) {
			in.Picture = picture(normal, gone)
			in.Picture.UnavailableSince = in.Now.Add(-RecoveryGrace)
		}, "-TabletsUnavailable", "+TabletsUnavailable", "-Settled", "1 tablets are not served (1 of table 't'), of 1 servers"},
		{"a short recovery", func(in *Input) {
			in.Picture = picture(normal, gone)
			in.Picture.UnavailableSince = in.Now.Add(-RecoveryGrace + time.Millisecond)
		}, "-TabletsUnavailable", "-AsExpected", "-Settled", "1 tablets are not served"},
		{"a recovery that lasted already, for an operator that has just begun", func(in *Input) {
			in.Picture = picture(normal, gone)
			in.Picture.UnavailableSince = in.Now.Time
			in.Cluster.Status.Conditions = []metav1.Condition{{Type: "Degraded", Status: metav1.ConditionTrue, Reason: ramcloudv1.ReasonTabletsUnavailable}}
		}, "-TabletsUnavailable", "+TabletsUnavailable", "-Settled", "1 tablets are not served"},
		{"a blocked recovery", func(in *Input) {
			in.Picture = picture(normal, gone)
			in.Picture.UnavailableSince = in.Now.Time
			in.Picture.Status.Recoveries = []*adminpb.Recovery{{ServerId: 2, Phase: "BLOCKED"}}
		}, "-TabletsUnavailable", "+TabletsUnavailable", "-Settled", "server 2 is BLOCKED"},
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
		{"a claim that somebody deleted", func(in *Input) { in.Decision.VolumesTerminating = []string{"the claim of server 1"} },
			"+AllServersUp", "+VolumeTerminating", "-Settled", ""},
		{"too few domains", func(in *Input) { in.Servers[1].Status.Placement.FailureDomain = "d-demo-server-0" },
			"+AllServersUp", "+TooFewFailureDomains", "-Settled", ""},
		{"pods without their zone", func(in *Input) {
			in.Cluster.Spec.TopologyKey = corev1.LabelTopologyZone
			in.Servers[1].Status.Placement.FailureDomain = "demo-server-1"
		}, "+AllServersUp", "+FailureDomainMissing", "-Settled", ""},
		{"a rolling restart", func(in *Input) { in.Decision.Rolling = "restart 'x': 3 to do" },
			"+AllServersUp", "-AsExpected", "+RollingRestart", ""},
		{"a member of etcd is down", func(in *Input) { trio(in); in.Members[1].Pod.Ready = false; in.Members[1].Problem = "no room" },
			"-EtcdMembersDown", "+EtcdMembersDown", "+Starting", "1 of 3 members of etcd are not ready: demo-etcd-1 (no room)"},
		{"a member of etcd ends", func(in *Input) { trio(in); in.Members[1].Pod.Deleting = true },
			"-EtcdMembersDown", "+EtcdMembersDown", "+Starting", "demo-etcd-1 (the pod is not ready)"},
		{"a coordinator has no pod", func(in *Input) { trio(in); in.Members[5].Pod = plan.Pod{} },
			"-CoordinatorsDown", "+CoordinatorsDown", "+Starting", "1 of 3 coordinators are not ready: demo-coordinator-2"},
		{"a coordinator that was just created", func(in *Input) {
			trio(in)
			in.Members[5].Pod = plan.Pod{Exists: true, CreatedAt: in.Now.Add(time.Second - StartGrace)}
		}, "-CoordinatorsDown", "-AsExpected", "+Starting", "demo-coordinator-2"},
		{"and still does not work", func(in *Input) {
			trio(in)
			in.Members[5].Pod = plan.Pod{Exists: true, CreatedAt: in.Now.Add(-StartGrace)}
		}, "-CoordinatorsDown", "+CoordinatorsDown", "+Starting", "demo-coordinator-2"},
		{"a member that ends in a roll that was asked for", func(in *Input) {
			trio(in)
			in.Members[0].Pod.Deleting, in.Decision.Rolling = true, "restart 'x': 6 to do"
		}, "-EtcdMembersDown", "-AsExpected", "+RollingRestart", "demo-etcd-0"},
		{"an etcd that forms", func(in *Input) { trio(in); in.Cluster.Status.Etcd.Formed = false; in.Members[0].Pod.Ready = false },
			"-EtcdMembersDown", "-AsExpected", "+Starting", "demo-etcd-0"},
		{"a single coordinator that answers and is not ready for Kubernetes", func(in *Input) {
			in.Cluster.Status.Coordinator.ClusterUUID = "u"
			in.Members = []plan.Member{{ID: plan.ID{Kind: plan.Coordinator}, Name: "demo-coordinator-0", Pod: plan.Pod{Exists: true}}}
		}, "+AllServersUp", "-AsExpected", "-Settled", ""},
		{"a step that failed", func(in *Input) { in.Failed = []string{"pod demo-server-1: exceeded quota"} },
			"+AllServersUp", "+ReconcileFailed", "-Settled", ""},
		{"servers that the coordinator does not hear", func(in *Input) {
			in.Picture.Status.Detection = &adminpb.Detection{State: "SUSPECT", Accounted: 1, Expected: 4, WaitsFor: []string{"server 3"}}
		}, "+AllServersUp", "+ServersSilent", "-Settled", ""},
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

// trio makes it a cluster of three members of etcd and three coordinators, all well.
func trio(in *Input) {
	in.Cluster.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	in.Cluster.Spec.Coordinator.Replicas = 3
	in.Cluster.Status.Etcd.Formed, in.Cluster.Status.Coordinator.ClusterUUID = true, "u"
	in.Members = nil
	for kind, name := range []string{plan.Etcd: "demo-etcd-%d", plan.Coordinator: "demo-coordinator-%d"} {
		for i := range int32(3) {
			in.Members = append(in.Members, plan.Member{ID: plan.ID{Kind: plan.Kind(kind), Index: i}, Name: fmt.Sprintf(name, i),
				Pod: plan.Pod{Exists: true, Ready: true, CreatedAt: in.Now.Add(-time.Hour)}})
		}
	}
}

// Several problems are reported together, the worst one as the reason.
func TestEveryTroubleIsTold(t *testing.T) {
	in := input()
	trio(&in)
	in.Members[0].Pod.Ready = false
	in.Failed = []string{"volume claim data-demo-server-3: exceeded quota"}
	in.Decision.VolumesLost = []string{"the volume of server 1 is lost"}
	c := meta.FindStatusCondition(Cluster(in).Conditions, ramcloudv1.ConditionDegraded)
	if c.Reason != ramcloudv1.ReasonEtcdMembersDown {
		t.Errorf("reason %s", c.Reason)
	}
	for _, part := range []string{"demo-etcd-0", "exceeded quota", "the volume of server 1 is lost"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("no %q in %q", part, c.Message)
		}
	}
}

// The bounded-text rule: however many are in trouble, and however much Kubernetes says of each.
func TestMessagesAreBounded(t *testing.T) {
	in := input()
	in.Picture.Connected, in.Picture.Heard = true, true
	in.Servers, in.Decision.Servers = nil, nil
	long := strings.Repeat("0/3 nodes are available. ", 400)
	for i := range 1000 {
		name := fmt.Sprintf("demo-server-%d", i)
		s := server(name, ramcloudv1.ServerNotEnlisted)
		s.Status.StateReason = long
		in.Servers, in.Decision.Servers = append(in.Servers, s), append(in.Decision.Servers, int32(i))
		in.Members = append(in.Members, plan.Member{ID: plan.ID{Kind: plan.Server, Index: int32(i)}, Name: name, Problem: long})
		in.Failed = append(in.Failed, long)
		in.Former = append(in.Former, long)
		in.Decision.Failing, in.Decision.VolumesLost = append(in.Decision.Failing, long), append(in.Decision.VolumesLost, long)
		in.Decision.Foreign, in.Decision.MetadataLost = append(in.Decision.Foreign, long), append(in.Decision.MetadataLost, long)
	}
	for _, change := range []func(){func() {}, func() { in.Former = nil }, func() { in.Picture = &coordinator.Picture{Problem: long + long} }} {
		change()
		for _, c := range Cluster(in).Conditions {
			if len(c.Message) > 5000 {
				t.Errorf("%s has %d bytes", c.Type, len(c.Message))
			}
		}
	}
	in = input()
	for i := range 152 {
		in.Failed = append(in.Failed, fmt.Sprintf("pod %d", i))
	}
	if c := meta.FindStatusCondition(Cluster(in).Conditions, ramcloudv1.ConditionDegraded); !strings.HasSuffix(c.Message, "; … and 147 more") {
		t.Errorf("%s", c.Message)
	}
	if s := Server(ServerInput{Member: plan.Member{Problem: long}, Picture: picture()}); len(s.StateReason) > 5000 {
		t.Errorf("the server's reason has %d bytes", len(s.StateReason))
	}
}

// The silence rule: an operator does not change conditions without information, and after a while sets
// Unknown.
func TestSilence(t *testing.T) {
	in := input()
	in.Picture = &coordinator.Picture{Problem: "connecting", Since: in.Now.Time}
	if got := Silence(in.Cluster, in.Picture, in.Now.Time); got != 0 {
		t.Errorf("a cluster that nobody ever heard is not reported for %s", got)
	}
	in.Cluster.Status.Coordinator.ClusterUUID = "u"
	at := func(after time.Duration) time.Duration {
		return Silence(in.Cluster, in.Picture, in.Now.Add(after))
	}
	if at(0) != SilenceGrace || at(SilenceGrace-time.Second) != time.Second || at(SilenceGrace) != 0 {
		t.Errorf("%s, %s, %s", at(0), at(SilenceGrace-time.Second), at(SilenceGrace))
	}
	ready := func() metav1.Condition {
		return *meta.FindStatusCondition(Cluster(in).Conditions, ramcloudv1.ConditionReady)
	}
	in.Now = metav1.NewTime(in.Now.Add(SilenceGrace))
	if c := ready(); c.Status != metav1.ConditionUnknown || c.Reason != ramcloudv1.ReasonCoordinatorNotAnswering {
		t.Errorf("after the grace: %+v", c)
	}
	in.Picture.Heard = true // and went away
	if at(-SilenceGrace) != 0 {
		t.Error("a coordinator that went away is not reported at once")
	}
	if c := ready(); c.Status != metav1.ConditionFalse {
		t.Errorf("one that went away: %+v", c)
	}
}

// An operator that has just begun to watch does not begin another grace, and takes nothing back meanwhile.
func TestMissingReplicasAreStillMissingAfterARestart(t *testing.T) {
	in := input()
	in.Picture.UnderReplicatedSince = in.Now.Add(-UnderReplicatedGrace)
	in.Cluster.Status = Cluster(in)
	in.Picture.UnderReplicatedSince = in.Now.Time
	if c := meta.FindStatusCondition(Cluster(in).Conditions, ramcloudv1.ConditionDegraded); c.Reason != ramcloudv1.ReasonUnderReplicated {
		t.Errorf("%+v", c)
	}
	in.Picture.UnderReplicatedSince = time.Time{}
	if c := meta.FindStatusCondition(Cluster(in).Conditions, ramcloudv1.ConditionDegraded); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
}

// The pinned-identity rule: written once, and another one is told of.
func TestTheIdentityIsPinned(t *testing.T) {
	in := input()
	identity := func() (metav1.ConditionStatus, string) {
		in.Cluster.Status = Cluster(in)
		c := meta.FindStatusCondition(in.Cluster.Status.Conditions, ramcloudv1.ConditionConsistentIdentity)
		return c.Status, c.Reason
	}
	expect := func(what string, status metav1.ConditionStatus, reason, uuid string) {
		t.Helper()
		s, r := identity()
		if got := in.Cluster.Status.Coordinator.ClusterUUID; s != status || r != reason || got != uuid {
			t.Errorf("%s: %s %s, uuid %q", what, s, r, got)
		}
	}
	connected := in.Picture
	away := &coordinator.Picture{Problem: "nobody there"}
	in.Picture = away
	expect("before the first answer", metav1.ConditionUnknown, ramcloudv1.ReasonIdentityNotKnown, "")
	in.Picture = connected
	expect("the first answer", metav1.ConditionTrue, ramcloudv1.ReasonIdentityPinned, "u")
	in.Picture = picture()
	in.Picture.Status.ClusterUuid = "another"
	expect("an answer that should not be looked at", metav1.ConditionTrue, ramcloudv1.ReasonIdentityPinned, "u")
	in.Picture, in.Stranger = away, "it leads another"
	expect("another store", metav1.ConditionFalse, ramcloudv1.ReasonIdentityChanged, "u")
	for _, kind := range []string{ramcloudv1.ConditionReady, ramcloudv1.ConditionDegraded} {
		if c := meta.FindStatusCondition(in.Cluster.Status.Conditions, kind); c.Reason != ramcloudv1.ReasonIdentityChanged || c.Message != in.Stranger {
			t.Errorf("%+v", c)
		}
	}
	in.Stranger = ""
	expect("while nobody answers", metav1.ConditionFalse, ramcloudv1.ReasonIdentityChanged, "u")
	in.Picture = connected
	expect("its own store again", metav1.ConditionTrue, ramcloudv1.ReasonIdentityPinned, "u")
}

// A failed read is reported by Degraded, and changes no other condition.
func TestUnread(t *testing.T) {
	in := input()
	in.Cluster.Status = Cluster(in)
	out := Unread(in.Cluster, []string{"reading what there is: forbidden"}, in.Now)
	for _, c := range out.Conditions {
		before := meta.FindStatusCondition(in.Cluster.Status.Conditions, c.Type)
		switch {
		case c.Type == ramcloudv1.ConditionDegraded:
			if c.Status != metav1.ConditionTrue || c.Reason != ramcloudv1.ReasonReconcileFailed || !strings.Contains(c.Message, "forbidden") {
				t.Errorf("%+v", c)
			}
		case !equality.Semantic.DeepEqual(*before, c):
			t.Errorf("%s became %+v", c.Type, c)
		}
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
	if got := LookAgain(in); got != 0 {
		t.Errorf("all is well, look again in %s", got)
	}
	in.Picture.UnderReplicatedSince = in.Now.Add(-10 * time.Second)
	if got := LookAgain(in); got != 20*time.Second {
		t.Errorf("look again in %s", got)
	}
	in.Picture.UnderReplicatedSince = in.Now.Add(-time.Hour)
	if got := LookAgain(in); got != 0 {
		t.Errorf("it was told, look again in %s", got)
	}
	trio(&in)
	in.Members[3].Pod = plan.Pod{Exists: true, CreatedAt: in.Now.Add(time.Second - StartGrace)}
	if got := LookAgain(in); got != time.Second {
		t.Errorf("a coordinator starts, look again in %s", got)
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

func TestOldFieldsAreReported(t *testing.T) {
	in := input()
	is := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		in.Cluster.Status = Cluster(in)
		c := meta.FindStatusCondition(in.Cluster.Status.Conditions, ramcloudv1.ConditionDeprecatedFields)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
			t.Errorf("%+v", c)
		}
	}
	is(metav1.ConditionFalse, ramcloudv1.ReasonNoDeprecatedFields, "no old fields")
	in.Deprecated = []string{"spec.pause is now paused: true", "spec.durability: buffered is now Buffered"}
	is(metav1.ConditionTrue, ramcloudv1.ReasonDeprecatedFieldsUsed,
		"version 0.2 refuses: spec.pause is now paused: true; spec.durability: buffered is now Buffered")
	in.Deprecated = nil
	is(metav1.ConditionFalse, ramcloudv1.ReasonNoDeprecatedFields, "")
}

func TestMembersAndPause(t *testing.T) {
	in := input()
	in.Cluster.Spec.Paused = true
	in.Cluster.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	for i, name := range []string{"demo-etcd-0", "demo-etcd-1", "demo-etcd-2"} {
		in.Members = append(in.Members, plan.Member{ID: plan.ID{Kind: plan.Etcd, Index: int32(i)}, Name: name, Pod: plan.Pod{Exists: true, Ready: i < 2}})
	}
	in.Members = append(in.Members, plan.Member{ID: plan.ID{Kind: plan.Coordinator}, Name: "demo-coordinator-0", Pod: plan.Pod{Exists: true}})
	in.Cluster.Status.Coordinator.LastFailures = []ramcloudv1.MemberFailure{
		{Pod: "demo-coordinator-0", PodFailure: ramcloudv1.PodFailure{Count: 2}}, {Pod: "demo-coordinator-9", PodFailure: ramcloudv1.PodFailure{Count: 1}}}
	out := Cluster(in)
	if out.Etcd.Replicas != 3 || out.Etcd.Ready != 2 || out.Etcd.Formed || out.Coordinator.Replicas != 1 || out.Coordinator.Ready != 0 ||
		len(out.Coordinator.LastFailures) != 1 || out.Coordinator.LastFailures[0].Pod != "demo-coordinator-0" {
		t.Errorf("%+v %+v", out.Etcd, out.Coordinator)
	}
	if c := meta.FindStatusCondition(out.Conditions, ramcloudv1.ConditionPaused); c.Status != metav1.ConditionTrue || c.Reason != ramcloudv1.ReasonPaused {
		t.Errorf("%+v", c)
	}
	in.Members[2].Pod.Ready = true
	in.Cluster.Status = Cluster(in)
	in.Members[2].Pod.Ready = false
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
	if !strings.Contains(c.Message, "2 pods differ from spec; set spec.update.restartRequest") {
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
		1: {Id: 1, Name: "a", State: adminpb.ServerState_SERVER_UP, Locator: "l", FailureDomain: "d", Stats: &adminpb.ServerStats{
			LogBytesUsed: 3 << 10, LogBytesLive: 1, LogBytesTotal: 256 << 20, HashTableBytes: 32 << 20, Cleaner: &adminpb.Cleaner{}}},
		2: {Id: 2, Name: "b", State: adminpb.ServerState_SERVER_CRASHED},
	}
	up := Server(ServerInput{Member: plan.Member{Name: "a", Pod: plan.Pod{Node: "n"}, Problem: "ignored when up"}, Picture: p})
	if up.State != ramcloudv1.ServerUp || up.StateReason != "" || up.Incarnation != "1" || up.Tablets != 1 || up.Placement.Node != "n" ||
		up.Placement.FailureDomain != "d" || up.MemoryUsed.String() != "3Ki" || up.MemoryLive.String() != "1Ki" ||
		up.MemoryTotal.String() != "256Mi" {
		t.Errorf("up: %+v", up)
	}
	for name, want := range map[string]ramcloudv1.ServerState{"b": ramcloudv1.ServerCrashed, "c": ramcloudv1.ServerNotEnlisted} {
		got := Server(ServerInput{Member: plan.Member{Name: name, Problem: "no pod"}, Picture: p, Before: ramcloudv1.RAMCloudServerStatus{Incarnation: "7"}})
		if got.State != want || !strings.HasSuffix(got.StateReason, "; no pod") || name == "c" && got.Incarnation != "7" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Server(ServerInput{Member: plan.Member{Name: "a"}, Picture: &coordinator.Picture{}}); got.State != ramcloudv1.ServerUnknown {
		t.Errorf("without a coordinator: %+v", got)
	}
}

// A coordinator of this version forwards the report of a server of an earlier version, which has no live
// objects.
func TestLiveBytesThatAreNotTold(t *testing.T) {
	p := picture(normal)
	p.Servers = map[uint64]*adminpb.Server{1: {Id: 1, Name: "a", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{
		LogBytesUsed: 3 << 20, LogBytesTotal: 256 << 20, Cleaner: &adminpb.Cleaner{}}}}
	out := Server(ServerInput{Member: plan.Member{Name: "a"}, Picture: p})
	if out.MemoryLive != nil || out.MemoryUsed.String() != "3Mi" {
		t.Errorf("live %v, used %v", out.MemoryLive, out.MemoryUsed)
	}
	in := input()
	in.Picture.Status.Memory = &adminpb.Memory{UsedBytes: 3 << 20, TotalBytes: 256 << 20}
	if out := Cluster(in); out.Data.MemoryLive != nil {
		t.Errorf("of all: %v", out.Data.MemoryLive)
	}
}

func TestServerConditions(t *testing.T) {
	p := picture(normal)
	p.Servers = map[uint64]*adminpb.Server{1: {Id: 1, Name: "a", State: adminpb.ServerState_SERVER_UP}}
	crashed := picture(normal)
	crashed.Servers = map[uint64]*adminpb.Server{1: {Id: 1, Name: "a", State: adminpb.ServerState_SERVER_CRASHED, StateReason: "silent"}}
	in := ServerInput{Member: plan.Member{Name: "a"}, Picture: p, Generation: 3, Now: metav1.NewTime(time.Unix(1000, 0))}
	since := in.Now
	for _, step := range []struct {
		name            string
		picture         *coordinator.Picture
		status          metav1.ConditionStatus
		reason, message string
		moves           bool
	}{
		{"up", p, metav1.ConditionTrue, "Up", "lists it as up", true},
		{"still up", p, metav1.ConditionTrue, "Up", "lists it as up", false},
		{"nobody answers", &coordinator.Picture{}, metav1.ConditionUnknown, "CoordinatorNotAnswering", "does not answer", true},
		{"crashed", crashed, metav1.ConditionFalse, "Crashed", "silent", true},
		{"a new one is not there yet", picture(normal), metav1.ConditionFalse, "NotEnlisted", "not enlisted", false},
	} {
		in.Picture, in.Now = step.picture, metav1.NewTime(in.Now.Add(time.Minute))
		if step.moves {
			since = in.Now
		}
		got := Server(in)
		c := meta.FindStatusCondition(got.Conditions, ramcloudv1.ConditionReady)
		if c == nil || c.Status != step.status || c.Reason != step.reason || !strings.Contains(c.Message, step.message) ||
			c.ObservedGeneration != 3 || got.ObservedGeneration != 3 || !c.LastTransitionTime.Equal(&since) || len(got.Conditions) != 1 {
			t.Errorf("%s: %+v of %d, since %s", step.name, got.Conditions, got.ObservedGeneration, since)
		}
		in.Before = got
	}
}

func TestResizing(t *testing.T) {
	in := input()
	find := func() *metav1.Condition { return meta.FindStatusCondition(Cluster(in).Conditions, "Resizing") }
	if c := find(); c != nil {
		t.Errorf("no size was changed: %+v", c)
	}
	for _, test := range []struct {
		growing, not []string
		status       metav1.ConditionStatus
		reason, says string
	}{
		{[]string{"a grows"}, nil, metav1.ConditionTrue, "VolumesGrowing", "a grows"},
		{[]string{"a grows"}, []string{"b cannot"}, metav1.ConditionTrue, "ResizeInfeasible", "b cannot; a grows"},
		{nil, []string{"b cannot"}, metav1.ConditionFalse, "ResizeInfeasible", "b cannot"},
		{nil, nil, metav1.ConditionFalse, "VolumesAsWanted", "every volume has the size that spec asks for; a server uses a larger one when it starts next"},
	} {
		in.Growing, in.NotGrowing = test.growing, test.not
		c := find()
		if c == nil || c.Status != test.status || c.Reason != test.reason || c.Message != test.says {
			t.Errorf("%v %v: %+v", test.growing, test.not, c)
		}
		in.Cluster.Status = Cluster(in)
	}
}

// The condition reports the progress of memory, and becomes False at the end.
func TestResizingTellsOfMemory(t *testing.T) {
	in := input()
	for _, test := range []struct {
		name                    string
		moving, staying, volume []string
		silent                  bool
		status                  metav1.ConditionStatus
		reason, says            string
	}{
		{"moving", []string{"1 of 3", "a waits"}, nil, nil, false, metav1.ConditionTrue, "MemoryResizing", "1 of 3; a waits"},
		{"silent", nil, nil, nil, true, metav1.ConditionTrue, "MemoryResizing", "1 of 3; a waits"},
		{"beside volumes", []string{"1 of 3", "a waits"}, nil, []string{"v grows"}, false, metav1.ConditionTrue, "MemoryResizing", "1 of 3; a waits; v grows"},
		{"some stay", []string{"a waits"}, []string{"b stays"}, nil, false, metav1.ConditionTrue, "ResizeInfeasible", "b stays; a waits"},
		{"all stay", nil, []string{"b stays"}, nil, false, metav1.ConditionFalse, "ResizeInfeasible", "b stays"},
		{"moving again", []string{"a waits"}, nil, nil, false, metav1.ConditionTrue, "MemoryResizing", "a waits"},
		{"done", nil, nil, nil, false, metav1.ConditionFalse, "MemoryAsWanted", "every server has the memory that spec asks for, and every volume the size"},
		{"still done", nil, nil, nil, false, metav1.ConditionFalse, "MemoryAsWanted", "every server has the memory that spec asks for, and every volume the size"},
		{"a refusal", nil, []string{"b stays"}, nil, false, metav1.ConditionFalse, "ResizeInfeasible", "b stays"},
		{"a refusal, silent", nil, nil, nil, true, metav1.ConditionFalse, "ResizeInfeasible", "b stays"},
		{"taken back", nil, nil, nil, false, metav1.ConditionFalse, "MemoryAsWanted", "every server has the memory that spec asks for, and every volume the size"},
		{"volumes alone", nil, nil, []string{"v grows"}, false, metav1.ConditionTrue, "VolumesGrowing", "v grows"},
		{"volumes alone, silent", nil, nil, []string{"w grows"}, true, metav1.ConditionTrue, "VolumesGrowing", "w grows"},
	} {
		in.MemoryMoving, in.MemoryStaying, in.Growing, in.Picture.Connected = test.moving, test.staying, test.volume, !test.silent
		c := meta.FindStatusCondition(Cluster(in).Conditions, "Resizing")
		if c == nil || c.Status != test.status || c.Reason != test.reason || c.Message != test.says {
			t.Errorf("%s: %+v", test.name, c)
		}
		in.Cluster.Status = Cluster(in)
	}
}

// The counts are of what cannot get its size; without the coordinator the one of servers stays.
func TestWhatCannotGetItsSizeIsCounted(t *testing.T) {
	in := input()
	in.NotGrowing, in.MemoryStaying = []string{"v stays"}, []string{"a stays", "b stays"}
	in.Cluster.Status = Cluster(in)
	if got, want := in.Cluster.Status.Resizing, (ramcloudv1.ResizingStatus{VolumesInfeasible: 1, ServersInfeasible: 2}); got != want {
		t.Errorf("%+v", got)
	}
	in.NotGrowing, in.MemoryStaying, in.Picture.Connected = nil, nil, false
	if got, want := Cluster(in).Resizing, (ramcloudv1.ResizingStatus{ServersInfeasible: 2}); got != want {
		t.Errorf("silent: %+v", got)
	}
	in.Picture.Connected = true
	if got := Cluster(in).Resizing; got != (ramcloudv1.ResizingStatus{}) {
		t.Errorf("again: %+v", got)
	}
}

func TestReplicationFactorIsTheMasters(t *testing.T) {
	in := input()
	in.Picture.Status.Replication.ReplicasWanted = 3
	in.Picture.Status.Replication.SegmentsUnderReplicated = 1
	in.Picture.UnderReplicatedSince = in.Now.Add(-UnderReplicatedGrace)
	got := Cluster(in)
	degraded := meta.FindStatusCondition(got.Conditions, "Degraded")
	if got.Data.Replication.Factor != 3 || !strings.Contains(degraded.Message, "fewer replicas than the replication factor 3") {
		t.Errorf("factor %d: %s", got.Data.Replication.Factor, degraded.Message)
	}
}
