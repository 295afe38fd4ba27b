package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"ramcloud.dev/client/adminpb"
)

// told is a picture and when it was told.
type told struct {
	at      time.Time
	objects uint64
}

// following runs use in simulated time, with a watcher whose coordinator has `servers` servers and sends what `send` is
// given. tellings are all pictures that were told since its snapshot.
func following(t *testing.T, servers int, use func(send func(*adminpb.WatchEvent), tellings func() []told)) {
	synctest.Test(t, func(t *testing.T) {
		var all []told
		self := &watcher{uid: "u", picture: &Picture{}}
		w := NewWatchers(logr.Discard(), DefaultTuning, nil)
		w.watchers[key] = self
		w.notify = func(context.Context, types.NamespacedName) {
			all = append(all, told{time.Now(), self.picture.Status.GetObjects()})
		}
		ctx, cancel := context.WithCancel(t.Context())
		events, done := make(chan *adminpb.WatchEvent), make(chan struct{})
		go func() { defer close(done); _, _ = w.takeIn(ctx, key, self, events) }()
		send := func(e *adminpb.WatchEvent) { events <- e }
		for id := range uint64(servers) {
			send(serverWith(id, 0))
		}
		send(objects(0))
		send(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_SnapshotComplete{SnapshotComplete: true}})
		synctest.Wait()
		all = nil
		time.Sleep(time.Minute)
		use(send, func() []told { synctest.Wait(); return all })
		cancel()
		<-done
	})
}

func objects(n uint64) *adminpb.WatchEvent {
	return &adminpb.WatchEvent{Event: &adminpb.WatchEvent_Status{Status: &adminpb.ClusterStatus{Objects: n}}}
}

func serverWith(id, objects uint64) *adminpb.WatchEvent {
	return &adminpb.WatchEvent{Event: &adminpb.WatchEvent_Server{Server: &adminpb.Server{Id: id + 1, State: up, Stats: &adminpb.ServerStats{Objects: objects}}}}
}

// A round of probes after a quiet time: one telling, soon, with the figures of all of it.
func TestFiguresAreToldSoon(t *testing.T) {
	following(t, 3, func(send func(*adminpb.WatchEvent), tellings func() []told) {
		began := time.Now()
		for id := range uint64(3) {
			send(serverWith(id, 7))
		}
		time.Sleep(20 * time.Millisecond) // the coordinator gathers, too
		send(objects(21))
		time.Sleep(time.Hour)
		all := tellings()
		if len(all) != 1 || all[0].objects != 21 || all[0].at.Sub(began) > 200*time.Millisecond {
			t.Errorf("of figures that changed %s ago was told %v", time.Since(began), all)
		}
	})
}

// What is shown is never older than two seconds, however long the load takes, and a change is not told more often.
func TestFiguresUnderLoadAreFreshAndBounded(t *testing.T) {
	following(t, 3, func(send func(*adminpb.WatchEvent), tellings func() []told) {
		const steps, step = 600, 100 * time.Millisecond
		began := time.Now()
		for n := range uint64(steps) {
			send(objects(n + 1))
			time.Sleep(step)
			shown := uint64(0)
			for _, one := range tellings() {
				shown = one.objects
			}
			if age := step * time.Duration(n+1-shown); age > 2*time.Second {
				t.Fatalf("after %s what is shown is %s old", time.Since(began), age)
			}
		}
		time.Sleep(DefaultTuning.Figures)
		all := tellings()
		if last := all[len(all)-1]; last.objects != steps {
			t.Errorf("the last figures were not told: %v", last)
		}
		if most := int(time.Since(began)/DefaultTuning.Figures) + 2; len(all) > most {
			t.Errorf("told %d times in %s, accepted: %d", len(all), time.Since(began), most)
		}
	})
}

// The API server takes a write for each server of each telling.
func TestFiguresOfManyServersAreToldRarely(t *testing.T) {
	following(t, 200, func(send func(*adminpb.WatchEvent), tellings func() []told) {
		for n := range uint64(600) {
			send(objects(n + 1))
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(tellings()); n < 5 || n > 8 {
			t.Errorf("in a minute of load, 200 servers were told %d times; want once in 10 s", n)
		}
	})
}

// A quiet cluster costs nothing: what does not change is not told, and neither is what was sent again.
func TestQuietFiguresAreNotTold(t *testing.T) {
	following(t, 3, func(send func(*adminpb.WatchEvent), tellings func() []told) {
		for range 100 {
			send(objects(0))
			send(serverWith(1, 0))
			time.Sleep(time.Minute)
		}
		if all := tellings(); len(all) != 0 {
			t.Errorf("nothing changed, and was told %d times", len(all))
		}
	})
}

// A change of state tells the figures as well: there is nothing left to tell.
func TestFiguresAreToldWithTheState(t *testing.T) {
	following(t, 3, func(send func(*adminpb.WatchEvent), tellings func() []told) {
		send(objects(5))
		send(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_TableDropped{TableDropped: "t"}})
		time.Sleep(time.Hour)
		if all := tellings(); len(all) != 1 || all[0].objects != 5 {
			t.Errorf("told %v", all)
		}
	})
}

// It changes with every pass of cleaning, and no condition follows from it.
func TestWhatCleanersDoIsAFigure(t *testing.T) {
	before := &adminpb.ClusterStatus{Memory: &adminpb.Memory{LiveBytes: 1}, Cleaner: &adminpb.Cleaner{Why: "enough is free"}}
	after := &adminpb.ClusterStatus{Memory: &adminpb.Memory{LiveBytes: 2}, Cleaner: &adminpb.Cleaner{Why: "little is free"}}
	if got := compare(before, after, statusWithoutFigures); got != changeFigures {
		t.Errorf("a change of it is %v, want %v", got, changeFigures)
	}
}
