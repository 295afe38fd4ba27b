// Package scope prevents two operators from managing the same cluster. The operator that manages the clusters of a
// namespace holds the lease LeaseName there. An operator for one namespace takes it by its ordinary leader election. An
// operator for all namespaces takes the lease of each namespace in which it finds a cluster, in the same way.
package scope

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseName is the name of the lease, in every namespace.
const LeaseName = "ramcloud-operator"

// Timing of a lease: how long it is valid without renewal, when its holder gives up, and how often it is renewed or
// tried for.
type Timing struct{ Lease, Renew, Retry time.Duration }

// DefaultTiming renews rarely, because there may be many namespaces, and an idle operator should write little.
var DefaultTiming = Timing{Lease: 60 * time.Second, Renew: 40 * time.Second, Retry: 15 * time.Second}

// Leases are the leases of all namespaces in which an operator for all namespaces found clusters. A nil *Leases holds
// every lease.
type Leases struct {
	client coordinationv1.LeasesGetter
	// own is the operator's own namespace, whose lease its leader election holds already. It is also the holder's name,
	// the same for all replicas of the operator, so that one takes over from another without waiting.
	own    string
	timing Timing
	log    logr.Logger

	mutex   sync.Mutex
	ctx     context.Context   // nil: not started, or ended
	leases  map[string]*lease // of the namespaces that were asked for
	running sync.WaitGroup
}

// lease is a lease that is held or tried for.
type lease struct {
	held   bool
	cancel context.CancelFunc
}

// NewLeases are the leases of an operator that runs in the namespace own.
func NewLeases(client coordinationv1.LeasesGetter, own string, timing Timing, log logr.Logger) *Leases {
	return &Leases{client: client, own: own, timing: timing, log: log, leases: map[string]*lease{}}
}

// Start blocks until ctx ends and then releases all leases. It makes Leases a manager.Runnable, which the manager
// starts once it leads.
func (l *Leases) Start(ctx context.Context) error {
	l.mutex.Lock()
	l.ctx = ctx
	l.mutex.Unlock()
	<-ctx.Done()
	l.mutex.Lock()
	l.ctx = nil
	l.mutex.Unlock()
	l.running.Wait()
	return nil
}

// Holds says whether this operator may manage clusters of the namespace. The first call starts to try for the lease.
func (l *Leases) Holds(namespace string) bool {
	if l == nil || namespace == l.own {
		return true
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if known := l.leases[namespace]; known != nil {
		return known.held
	}
	if l.ctx != nil {
		ctx, cancel := context.WithCancel(l.ctx)
		one := &lease{cancel: cancel}
		l.leases[namespace] = one
		l.running.Go(func() { l.hold(ctx, namespace, one) })
	}
	return false
}

// Forget releases the lease of a namespace without clusters.
func (l *Leases) Forget(namespace string) {
	if l == nil {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if one := l.leases[namespace]; one != nil {
		one.cancel()
		delete(l.leases, namespace)
	}
}

// set records whether the lease is held, unless ctx has ended: a late report is ignored.
func (l *Leases) set(ctx context.Context, namespace string, one *lease, held bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if held && ctx.Err() != nil || one.held == held {
		return
	}
	one.held = held
	l.log.Info("lease of a namespace", "namespace", namespace, "held", held)
}

// hold tries for the lease and keeps it until ctx ends.
func (l *Leases) hold(ctx context.Context, namespace string, one *lease) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}, Client: l.client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: "operator of namespace " + l.own},
		},
		LeaseDuration: l.timing.Lease, RenewDeadline: l.timing.Renew, RetryPeriod: l.timing.Retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { l.set(ctx, namespace, one, true) },
			OnStoppedLeading: func() { l.set(ctx, namespace, one, false) },
		},
	})
	if err != nil {
		l.log.Error(err, "no lease can be tried for", "namespace", namespace)
		return
	}
	for ctx.Err() == nil {
		elector.Run(ctx) // ends when the lease was lost
	}
}
