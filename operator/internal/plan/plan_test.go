package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func running() Pod { return Pod{Exists: true, Ready: true, ReadySince: now.Add(-time.Hour)} }

func failed(ago time.Duration) Pod {
	return Pod{Exists: true, Failed: true, Reason: "Evicted", Message: "node was low on memory", FailedAt: now.Add(-ago)}
}

// well is a coordinator that works.
func well() Member {
	return Member{ID: ID{Coordinator, 0}, Pod: running(), Volume: VolumePresent, HadData: true}
}

// made gives servers that have enlisted once, with their volumes, beside a coordinator that works.
func made(pods ...Pod) []Member {
	out := []Member{well()}
	for i, p := range pods {
		out = append(out, Member{ID: ID{Server, int32(i)}, Pod: p, Tablets: 2, Up: p.Ready, Volume: VolumePresent, Generation: 1, Bound: true, HadData: true,
			ServerID: fmt.Sprint(10 + i)})
	}
	return out
}

func with(members []Member, change func([]Member)) []Member {
	change(members)
	return members
}

func server(i int32) ID { return ID{Server, i} }

func TestDecide(t *testing.T) {
	failing := fmt.Sprintf("server 0 failed (Evicted: node was low on memory), re-created %s after it failed", FirstBackoff)
	lost := func(index int, volume Volume, up bool, pod Pod) []Member {
		return with(made(running(), running()), func(m []Member) { m[index].Volume, m[index].Up, m[index].Pod = volume, up, pod })
	}
	mounted := Pod{Exists: true, Mounted: true}
	released := func(members []Member, release Release) []Member {
		return with(members, func(m []Member) { m[2].Release = release })
	}
	for _, test := range []struct {
		name string
		in   Observed
		want Decision
	}{
		{"a new cluster gets its coordinator and all servers", Observed{Wanted: 3},
			Decision{Servers: []int32{0, 1, 2}, Volumes: []ID{{Coordinator, 0}, server(0), server(1), server(2)}, Create: []ID{{Coordinator, 0}, server(0), server(1), server(2)}}},
		{"with their volumes", Observed{Wanted: 1, Members: []Member{well(), {ID: server(0)}}},
			Decision{Servers: []int32{0}, Volumes: []ID{server(0)}, Create: []ID{server(0)}}},
		{"a claim that vanished under a waiting pod is made again", Observed{Wanted: 1, Members: []Member{well(), {ID: server(0), Pod: Pod{Exists: true}}}},
			Decision{Servers: []int32{0}, Volumes: []ID{server(0)}}},
		{"a complete cluster needs nothing", Observed{Wanted: 2, Members: made(running(), running())}, Decision{Servers: []int32{0, 1}}},
		{"scale out", Observed{Wanted: 3, Members: made(running(), running())},
			Decision{Servers: []int32{0, 1, 2}, Volumes: []ID{server(2)}, Create: []ID{server(2)}}},
		{"scale out fills the lowest free index",
			Observed{Wanted: 3, Members: []Member{well(), {ID: server(2), Pod: running()}, {ID: server(0), Pod: running()}}},
			Decision{Servers: []int32{0, 1, 2}, Volumes: []ID{server(1)}, Create: []ID{server(1)}}},
		{"scale in is refused with the arithmetic",
			Observed{Wanted: 1, ReplicationFactor: 2, Connected: true, Members: made(running(), running(), running())},
			Decision{Servers: []int32{0, 1, 2}, Blocked: "spec.servers.replicas is 1 and 3 servers exist: taking away 2 would " +
				"lose 4 tablets and the replicas on 2 volumes, since moving them (2 replicas of each segment) is not " +
				"supported yet; accepted: 3 or more; spec.servers.replicas is 1 and replicationFactor 2 needs 3 servers, since a " +
				"server keeps no replicas of its own log; accepted: 3 or more"}},
		{"fewer servers than the replicas need are not even begun with", Observed{Wanted: 1, ReplicationFactor: 1, Members: made()},
			Decision{Servers: []int32{0, 1}, Volumes: []ID{server(0), server(1)}, Create: []ID{server(0), server(1)}, Blocked: "spec.servers.replicas is 1 and " +
				"replicationFactor 1 needs 2 servers, since a server keeps no replicas of its own log; accepted: 2 or more"}},
		{"a lost pod is created again at once", Observed{Wanted: 2, Members: made(Pod{}, running())},
			Decision{Servers: []int32{0, 1}, Create: []ID{server(0)}}},
		{"a pod that is going is waited for",
			Observed{Wanted: 1, Members: with(made(running()), func(m []Member) { m[0].Pod = Pod{Exists: true, Deleting: true} })},
			Decision{Servers: []int32{0}}},
		{"a failed pod waits for its back-off", Observed{Wanted: 1, Members: made(failed(4 * time.Second))},
			Decision{Servers: []int32{0}, Failing: []string{failing}, Again: 6 * time.Second}},
		{"and is then replaced", Observed{Wanted: 1, Members: made(failed(FirstBackoff))},
			Decision{Servers: []int32{0}, Failing: []string{failing}, Replace: []Replacement{{ID: server(0), Failure: Failure{
				Count: 1, Reason: "Evicted", Message: "node was low on memory", Time: now.Add(-FirstBackoff)}}}}},
		{"a failure is counted once, however often the pod is looked at", Observed{Wanted: 1, Members: with(made(failed(FirstBackoff)), func(m []Member) {
			m[1].Failure = Failure{Count: 1, Reason: "Evicted", Time: now.Add(-FirstBackoff)}
		})}, Decision{Servers: []int32{0}, Failing: []string{failing}, Replace: []Replacement{{ID: server(0), Failure: Failure{
			Count: 1, Reason: "Evicted", Time: now.Add(-FirstBackoff)}}}}},
		{"failures are forgotten", Observed{Wanted: 1, Members: with(made(running()), func(m []Member) { m[0].Failure.Count = 3 })},
			Decision{Servers: []int32{0}, Forget: []ID{{Coordinator, 0}}}},
		{"but not at once", Observed{Wanted: 1, Members: with(made(running()), func(m []Member) {
			m[0].Failure.Count, m[0].Pod.ReadySince = 3, now.Add(-time.Minute)
		})}, Decision{Servers: []int32{0}, Again: ForgetAfter - time.Minute}},
		{"a volume of another owner is not taken", Observed{Wanted: 1, Members: made(Pod{}), Foreign: map[ID]string{server(0): "data-x"}},
			Decision{Servers: []int32{0}, Foreign: []string{"data-x"}}},
		{"not even by a server that is new", Observed{Wanted: 2, Members: made(running()), Foreign: map[ID]string{server(1): "data-y"}},
			Decision{Servers: []int32{0, 1}, Foreign: []string{"data-y"}}},
		{"a lost volume is not replaced while the coordinator is silent",
			Observed{Wanted: 2, Members: lost(1, VolumeNone, false, Pod{})},
			Decision{Servers: []int32{0, 1}, VolumesLost: []string{"the volume of server 0 is lost; it gets another once the " +
				"coordinator answers and does not list the server as up"}}},
		{"nor while it lists the server as up", Observed{Wanted: 2, Connected: true, Members: lost(1, VolumeNone, true, Pod{})},
			Decision{Servers: []int32{0, 1}, VolumesLost: []string{"the volume of server 0 is lost; it gets another once the " +
				"coordinator, which lists the server as up, no longer does"}}},
		{"but then", Observed{Wanted: 2, Connected: true, Members: lost(1, VolumeNone, false, Pod{})},
			Decision{Servers: []int32{0, 1}, Volumes: []ID{server(0)}, Create: []ID{server(0)}}},
		{"a server whose claim is lost gets another", Observed{Wanted: 2, Connected: true, Members: lost(2, VolumeLost, false, Pod{})},
			Decision{Servers: []int32{0, 1}, Volumes: []ID{server(1)}, Retire: []ID{server(1)}, Create: []ID{server(1)}}},
		{"and one whose claim somebody deleted", Observed{Wanted: 2, Connected: true, Members: lost(2, VolumeDeleting, false, Pod{})},
			Decision{Servers: []int32{0, 1}, Volumes: []ID{server(1)}, Retire: []ID{server(1)}, Create: []ID{server(1)}}},
		{"not while the coordinator lists it as up", Observed{Wanted: 2, Connected: true, Members: lost(2, VolumeDeleting, true, Pod{})},
			Decision{Servers: []int32{0, 1}, VolumesTerminating: []string{"the volume claim of server 1 was deleted; it gets another once the " +
				"coordinator, which lists the server as up, no longer does"}}},
		{"not while the coordinator is silent", Observed{Wanted: 2, Members: lost(2, VolumeLost, false, Pod{})},
			Decision{Servers: []int32{0, 1}, VolumesLost: []string{"the volume of server 1 is lost; it gets another once the " +
				"coordinator answers and does not list the server as up"}}},
		{"a pod that waits for a lost volume is given up first", Observed{Wanted: 2, Connected: true, Members: lost(2, VolumeLost, false, Pod{Exists: true})},
			Decision{Servers: []int32{0, 1}, GiveUp: []ID{server(1)}}},
		{"not while the coordinator is silent, which may have it", Observed{Wanted: 2, Members: lost(2, VolumeLost, false, Pod{Exists: true})},
			Decision{Servers: []int32{0, 1}, VolumesLost: []string{"the volume of server 1 is lost; it gets another once the " +
				"coordinator answers and does not list the server as up"}}},
		{"a pod that has it mounted may come back", Observed{Wanted: 2, Connected: true, Members: lost(2, VolumeDeleting, false, mounted)},
			Decision{Servers: []int32{0, 1}, VolumesTerminating: []string{"the volume claim of server 1 was deleted; its pod still has it and may continue with it (delete the pod to continue without it): the coordinator was not asked yet"}}},
		{"and is given up when the volume is released", Observed{Wanted: 2, Connected: true,
			Members: released(lost(2, VolumeLost, false, mounted), Release{ServerID: "11", Releasable: true})},
			Decision{Servers: []int32{0, 1}, GiveUp: []ID{server(1)}}},
		{"not with the release of an id that was not noted yet", Observed{Wanted: 2, Connected: true,
			Members: with(released(lost(2, VolumeDeleting, false, mounted), Release{ServerID: "11", Releasable: true}), func(m []Member) { m[2].KnownAs = "12" })},
			Decision{Servers: []int32{0, 1}, VolumesTerminating: []string{"the volume claim of server 1 was deleted; its pod still has it and may continue with it (delete the pod to continue without it): the coordinator lists " +
				"the server under the id 12, which was not noted yet"}}},
		{"never a server that runs", Observed{Wanted: 2, Connected: true,
			Members: released(lost(2, VolumeDeleting, true, running()), Release{ServerID: "11", Releasable: true})},
			Decision{Servers: []int32{0, 1}, VolumesTerminating: []string{"the volume claim of server 1 was deleted; it is kept while the server runs"}}},
		{"lost metadata is not replaced by an empty volume", Observed{Wanted: 2, Connected: true, Members: lost(0, VolumeNone, false, Pod{})},
			Decision{Servers: []int32{0, 1}, MetadataLost: []string{"coordinator 0"}}},
		{"a paused cluster is left alone", Observed{Wanted: 3, Paused: true, Members: made(failed(time.Hour), Pod{})},
			Decision{Servers: []int32{0, 1, 2}, Failing: []string{failing}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in.Now = now
			test.in.Coordinators, test.in.CoordinatorVolume = 1, true
			if diff := cmp.Diff(test.want, Decide(test.in)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestALostEtcdMemberRejoins: one at a time, and only while all others are well.
func TestALostEtcdMemberRejoins(t *testing.T) {
	decide := func(change func(*Observed)) Decision {
		o := Observed{Now: now, Wanted: 3, ReplicationFactor: 2, Coordinators: 3, EtcdMembers: 3, Formed: true, Connected: true, Members: trio()}
		for i := range o.Members {
			if id := o.Members[i].ID; id.Kind == Etcd {
				o.Members[i].Volume, o.Members[i].HadData = VolumePresent, true
			}
		}
		change(&o)
		return Decide(o)
	}
	member := func(o *Observed, index int32) *Member {
		return &o.Members[slices.IndexFunc(o.Members, func(m Member) bool { return m.ID == ID{Etcd, index} })]
	}
	lose := func(o *Observed, index int32) { member(o, index).Volume, member(o, index).Pod = VolumeNone, Pod{} }
	if d := decide(func(o *Observed) { lose(o, 1) }); !slices.Equal(d.Rejoin, []ID{{Etcd, 1}}) || len(d.MetadataLost) > 0 || slices.Contains(d.Create, ID{Etcd, 1}) {
		t.Errorf("one is lost: %+v", d)
	}
	for name, change := range map[string]func(*Observed){
		"two are lost":         func(o *Observed) { lose(o, 1); lose(o, 2) },
		"another is not ready": func(o *Observed) { lose(o, 1); member(o, 0).Pod.Ready = false },
		"another is going":     func(o *Observed) { lose(o, 1); member(o, 0).Pod.Deleting = true },
		"it never was whole":   func(o *Observed) { lose(o, 1); o.Formed = false },
	} {
		if d := decide(change); len(d.Rejoin) > 0 || len(d.MetadataLost) == 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	// Its pod waits for a claim that is gone: the pod goes first.
	d := decide(func(o *Observed) {
		member(o, 1).Volume, member(o, 1).Pod.Ready = VolumeNone, false
	})
	if !slices.Equal(d.DropVolumes, []ID{{Etcd, 1}}) || len(d.Rejoin) > 0 {
		t.Errorf("with a pod: %+v", d)
	}
}

// trio is three etcd members and three coordinators, all well and made under request "old".
func trio() []Member {
	var out []Member
	for i := range int32(3) {
		pod := running()
		pod.Request = "old"
		out = append(out, Member{ID: ID{Etcd, i}, Pod: pod, Volume: VolumePresent, HadData: true}, Member{ID: ID{Coordinator, i}, Pod: pod})
	}
	return out
}

func TestRollingRestart(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*Observed)
		restart []ID
		rolling string
	}{
		{"nothing is asked for", func(o *Observed) { o.Request = "" }, nil, ""},
		{"nothing is left", func(o *Observed) { o.Request = "old" }, nil, ""},
		{"etcd goes first", func(*Observed) {}, []ID{{Etcd, 0}}, "restart 'new': 6 to do, next is etcd member 0"},
		{"one after the other", func(o *Observed) { o.Members[0].Pod.Request = "new" }, []ID{{Etcd, 1}}, "5 to do"},
		{"the next waits for the one before", func(o *Observed) { o.Members[0].Pod = Pod{Exists: true, Request: "new"} }, nil,
			"next is etcd member 1, which waits: etcd member 0 is not ready"},
		{"and for any other", func(o *Observed) { o.Members[5].Pod = Pod{} }, nil, "coordinator 2 is not ready"},
		{"and for the coordinator's answer", func(o *Observed) { o.Connected = false }, nil, "the coordinator does not answer"},
		{"what does not work goes first", func(o *Observed) { o.Members[3].Pod.Ready = false; o.Connected = false },
			[]ID{{Coordinator, 1}}, "next is coordinator 1"},
		{"unless something is on its way", func(o *Observed) { o.Members[3].Pod.Ready = false; o.Members[0].Pod.Deleting = true },
			nil, "etcd member 0 has no pod"},
		{"the last one is a part of it until it has ended", func(o *Observed) {
			for i := range o.Members {
				o.Members[i].Pod.Request = "new"
			}
			o.Members[5].Pod.Request, o.Members[5].Pod.Deleting = "old", true
		}, nil, "restart 'new': waiting for coordinator 2 to end"},
		{"one that ends and was restarted is none", func(o *Observed) {
			for i := range o.Members {
				o.Members[i].Pod.Request = "new"
			}
			o.Members[5].Pod.Deleting = true
		}, nil, ""},
		{"not while paused", func(o *Observed) { o.Paused = true }, nil, "spec.paused is set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Observed{Now: now, Coordinators: 3, EtcdMembers: 3, Formed: true, Connected: true, Request: "new", Members: trio()}
			test.change(&o)
			d := Decide(o)
			if !cmp.Equal(d.Restart, test.restart) || (test.rolling == "") != (d.Rolling == "") || !strings.Contains(d.Rolling, test.rolling) {
				t.Errorf("restart %v, %q; want %v, %q", d.Restart, d.Rolling, test.restart, test.rolling)
			}
		})
	}
}

func TestCoordinatorsWaitForEtcdAtFirst(t *testing.T) {
	o := Observed{Now: now, Coordinators: 3, EtcdMembers: 3}
	if d := Decide(o); !cmp.Equal(d.Create[:3], []ID{{Etcd, 0}, {Etcd, 1}, {Etcd, 2}}) || d.Create[3].Kind != Server {
		t.Errorf("first: %v", d.Create)
	}
	o.Formed = true
	if d := Decide(o); len(d.Create) != 7 {
		t.Errorf("then: %v", d.Create)
	}
}

func TestSurplusCoordinatorsGoOneAtATime(t *testing.T) {
	o := Observed{Now: now, Coordinators: 1, EtcdMembers: 3, Formed: true, Members: trio()}
	if d := Decide(o); !cmp.Equal(d.Remove, []ID{{Coordinator, 2}}) {
		t.Errorf("remove %v", d.Remove)
	}
	o.Members[5].Pod.Deleting = true
	if d := Decide(o); d.Remove != nil {
		t.Errorf("while one goes: remove %v", d.Remove)
	}
	o.Members[5].Pod = Pod{}
	o.Members[1].Pod.Ready = false
	if d := Decide(o); d.Remove != nil {
		t.Errorf("while the one that stays is not well: remove %v", d.Remove)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int32]time.Duration{0: 10 * time.Second, 1: 20 * time.Second, 4: 160 * time.Second, 5: MaxBackoff, 1 << 30: MaxBackoff} {
		if got := Backoff(failures); got != want {
			t.Errorf("Backoff(%d) = %s, want %s", failures, got, want)
		}
	}
}
