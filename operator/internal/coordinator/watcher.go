package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"ramcloud.dev/client/adminpb"
)

// Tuning of a watcher. Tests shorten them.
type Tuning struct {
	// FirstRetry and LastRetry bound the wait between attempts, which doubles.
	FirstRetry, LastRetry time.Duration
	// Check is how often a connected coordinator is asked for its status, to detect a peer that vanished; Answer is how
	// long it may take.
	Check, Answer time.Duration
	// Gather is how long changes of load figures are collected before they are reported: a round of probes changes the
	// figures of every server.
	Gather time.Duration
	// Figures is the shortest time between two reports of figures, and FiguresPerServer the same for each server of a
	// large cluster: a report writes the status of each server whose figures changed.
	Figures, FiguresPerServer time.Duration
}

// DefaultTuning is what the operator runs with. Status is at most two seconds old in clusters of up to 30 servers: the
// coordinator hears its servers every 100 ms. Load on larger ones causes at most 20 writes a second.
var DefaultTuning = Tuning{
	FirstRetry: 250 * time.Millisecond, LastRetry: 10 * time.Second,
	Check: 10 * time.Second, Answer: 5 * time.Second,
	Gather: 100 * time.Millisecond, Figures: 1500 * time.Millisecond, FiguresPerServer: 50 * time.Millisecond,
}

// maxEvent bounds one event: a table of many tablets is the largest.
const maxEvent = 16 << 20

// Watchers keeps one watcher for each cluster.
type Watchers struct {
	tuning Tuning
	log    logr.Logger
	notify func(context.Context, types.NamespacedName)

	mutex    sync.Mutex
	closed   bool
	watchers map[types.NamespacedName]*watcher
	running  sync.WaitGroup
}

type watcher struct {
	uid     types.UID
	address string
	cancel  context.CancelFunc
	picture *Picture // guarded by Watchers.mutex, as are the next two, which are copied into every picture
	heard   bool
	since   time.Time
}

// NewWatchers creates the set. notify is called, from any goroutine, when a cluster's picture changed; it may block
// until its context ends.
func NewWatchers(log logr.Logger, tuning Tuning, notify func(context.Context, types.NamespacedName)) *Watchers {
	return &Watchers{tuning: tuning, log: log, notify: notify, watchers: map[types.NamespacedName]*watcher{}}
}

// Get is the newest picture of the cluster whose admin API is at address (host:port, or several separated by commas of
// which one leads). The first call, and one with another address, starts a watch and returns a picture that is not
// connected yet. So does a call with another uid: nothing of a former cluster of the same name is kept.
func (w *Watchers) Get(cluster types.NamespacedName, uid types.UID, address string) *Picture {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.closed {
		return &Picture{Problem: "the operator is stopping"}
	}
	existing := w.watchers[cluster]
	if existing != nil && existing.uid == uid && existing.address == address {
		return existing.picture
	}
	if existing != nil {
		existing.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	created := &watcher{uid: uid, address: address, cancel: cancel, since: time.Now()}
	created.picture = &Picture{Problem: fmt.Sprintf("connecting to the admin API at %s", address), Since: created.since}
	w.watchers[cluster] = created
	w.running.Go(func() { w.run(ctx, cluster, created) })
	return created.picture
}

// Forget ends the watch of a deleted cluster.
func (w *Watchers) Forget(cluster types.NamespacedName) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if existing := w.watchers[cluster]; existing != nil {
		existing.cancel()
		delete(w.watchers, cluster)
	}
}

// Len is how many clusters are watched.
func (w *Watchers) Len() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.watchers)
}

// Start blocks until ctx ends and then closes every watch; it makes Watchers a manager.Runnable.
func (w *Watchers) Start(ctx context.Context) error {
	<-ctx.Done()
	w.mutex.Lock()
	w.closed = true
	for _, existing := range w.watchers {
		existing.cancel()
	}
	w.mutex.Unlock()
	w.running.Wait()
	return nil
}

// publish replaces the picture, unless the watcher was replaced or ended meanwhile.
func (w *Watchers) publish(ctx context.Context, cluster types.NamespacedName, from *watcher, picture *Picture) {
	w.mutex.Lock()
	current := w.watchers[cluster] == from
	// A repeated problem is not reported again.
	news := current && (picture.Connected || from.picture.Connected || from.picture.Problem != picture.Problem)
	if current {
		from.heard = from.heard || picture.Connected
		picture.Heard, picture.Since = from.heard, from.since
		from.picture = picture
	}
	w.mutex.Unlock()
	if news {
		w.notify(ctx, cluster)
	}
}

func (w *Watchers) run(ctx context.Context, cluster types.NamespacedName, self *watcher) {
	log := w.log.WithValues("cluster", cluster, "address", self.address)
	wait := w.tuning.FirstRetry
	addresses := strings.Split(self.address, ",")
	for ctx.Err() == nil {
		// Every address is tried before a problem is reported, because standbys refuse and only one leads.
		var problems []string
		for _, address := range addresses {
			connected, err := w.follow(ctx, cluster, self, address)
			if ctx.Err() != nil {
				return
			}
			problems = append(problems, problem(address, err))
			if connected {
				wait = w.tuning.FirstRetry
				log.Info("lost the coordinator's watch stream", "from", address, "reason", err.Error())
			}
		}
		w.publish(ctx, cluster, self, &Picture{Problem: strings.Join(problems, "; ")})
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
		wait = min(2*wait, w.tuning.LastRetry)
	}
}

// problem is the text of an error without the parts that differ between attempts.
func problem(address string, err error) string {
	return fmt.Sprintf("the coordinator does not answer at its admin address %s (%s)", address, status.Code(err))
}

// follow connects and applies events until the stream breaks. connected: a whole snapshot was received.
func (w *Watchers) follow(ctx context.Context, cluster types.NamespacedName, self *watcher, address string) (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A new connection for every attempt: the name resolves to a new address once the pod is replaced.
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxEvent)))
	if err != nil {
		return false, err
	}
	defer func() { _ = connection.Close() }()
	admin := adminpb.NewAdminClient(connection)
	if err := w.check(ctx, admin); err != nil {
		return false, err
	}
	stream, err := admin.Watch(ctx, &adminpb.WatchRequest{})
	if err != nil {
		return false, err
	}
	events := make(chan *adminpb.WatchEvent)
	go func() {
		for {
			event, err := stream.Recv()
			if err != nil {
				cancel(err)
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		ticker := time.NewTicker(w.tuning.Check)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if err := w.check(ctx, admin); err != nil {
					cancel(fmt.Errorf("no answer to GetStatus: %w", err))
					return
				}
			}
		}
	}()
	return w.takeIn(ctx, cluster, self, events)
}

// Ask asks the coordinator at this admin address, and no other, for its status within the time: an error if it
// does not answer or does not lead.
func Ask(ctx context.Context, address string, within time.Duration) error {
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = adminpb.NewAdminClient(connection).GetStatus(ctx, &adminpb.GetStatusRequest{})
	return err
}

func (w *Watchers) check(ctx context.Context, admin adminpb.AdminClient) error {
	ctx, cancel := context.WithTimeout(ctx, w.tuning.Answer)
	defer cancel()
	_, err := admin.GetStatus(ctx, &adminpb.GetStatusRequest{})
	return err
}

func (w *Watchers) takeIn(ctx context.Context, cluster types.NamespacedName, self *watcher, events <-chan *adminpb.WatchEvent) (bool, error) {
	received := newDraft()
	figures := figuresTimer{tuning: w.tuning, timer: time.NewTimer(time.Hour)}
	figures.timer.Stop()
	defer figures.timer.Stop()
	publish := func() {
		figures.told(time.Now())
		w.publish(ctx, cluster, self, received.picture())
	}
	for {
		select {
		case <-ctx.Done():
			err := context.Cause(ctx)
			if err == nil || errors.Is(err, context.Canceled) {
				err = ctx.Err()
			}
			return received.complete, err
		case event := <-events:
			switch how := received.add(event, time.Now()); {
			case !received.complete:
			case how == changeState:
				publish()
			case how == changeFigures:
				figures.changed(time.Now(), len(received.servers))
			}
		case <-figures.timer.C:
			publish()
		}
	}
}

// figuresTimer fires when changed figures must be reported: soon after the first change, and not more often than the
// tuning allows. It does not fire while nothing changes.
type figuresTimer struct {
	tuning  Tuning
	timer   *time.Timer
	pending bool
	last    time.Time
}

func (f *figuresTimer) changed(now time.Time, servers int) {
	if f.pending {
		return
	}
	f.pending = true
	pause := max(f.tuning.Figures, time.Duration(servers)*f.tuning.FiguresPerServer)
	f.timer.Reset(max(f.tuning.Gather, f.last.Add(pause).Sub(now)))
}

// told records that all figures were reported.
func (f *figuresTimer) told(now time.Time) {
	f.timer.Stop()
	f.pending, f.last = false, now
}
