package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// expectedFor limits how long a decision waits for the cache: an object whose label somebody removed never appears
// there.
const expectedFor = time.Minute

// expectations are the operator's own writes that the cache may not show yet. Each must be seen before the next
// decision about its cluster (the own-writes rule). Otherwise a decision could be made twice.
type expectations struct {
	mutex     sync.Mutex
	byCluster map[types.NamespacedName]map[string]expectation
}

type expectation struct {
	object  client.Object // as written, or as it was when it was deleted
	deleted bool
	since   time.Time
}

// objectKey identifies an object within a namespace.
func objectKey(object client.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

func (e *expectations) expect(cluster types.NamespacedName, object client.Object, deleted bool, now time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.byCluster == nil {
		e.byCluster = map[types.NamespacedName]map[string]expectation{}
	}
	if e.byCluster[cluster] == nil {
		e.byCluster[cluster] = map[string]expectation{}
	}
	e.byCluster[cluster][objectKey(object)] = expectation{object: object, deleted: deleted, since: now}
}

// forget drops the expectations of a deleted cluster.
func (e *expectations) forget(cluster types.NamespacedName) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.byCluster, cluster)
}

// drop drops one expectation that turned out to be void.
func (e *expectations) drop(cluster types.NamespacedName, object client.Object) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.byCluster[cluster], objectKey(object))
}

// unseen drops the expectations that the cache (by objectKey) fulfils, and returns the rest in order.
func (e *expectations) unseen(cluster types.NamespacedName, cached map[string]client.Object, now time.Time) (out []expectation) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	waiting := e.byCluster[cluster]
	for _, key := range slices.Sorted(maps.Keys(waiting)) {
		one := waiting[key]
		if one.shownBy(cached[key]) || now.Sub(one.since) > expectedFor {
			delete(waiting, key)
			continue
		}
		out = append(out, one)
	}
	return out
}

// shownBy says whether the cached object (nil: none) is at least as new as the write.
func (e expectation) shownBy(cached client.Object) bool {
	if e.deleted {
		return cached == nil || cached.GetUID() != e.object.GetUID() || cached.GetDeletionTimestamp() != nil
	}
	if cached == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), e.object.GetResourceVersion())
	return err != nil || order >= 0 // versions that cannot be compared count as shown
}
