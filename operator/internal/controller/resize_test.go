package controller_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// storageClass makes a class whose volumes can grow, or cannot.
func (w *world) storageClass(name string, expands bool) {
	w.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "test", AllowVolumeExpansion: &expands}
	check(w.t, w.client.Create(w.ctx, class))
}

// grown sets a claim's status as a storage driver would: bound, with this size.
func (w *world) grown(name, size string) {
	w.t.Helper()
	var claim corev1.PersistentVolumeClaim
	w.exists(name, &claim)
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	check(w.t, w.client.Status().Update(w.ctx, &claim))
}

// asks waits until the claim asks for this size.
func (w *world) asks(name, size string) {
	w.t.Helper()
	w.until(name, func() string {
		var claim corev1.PersistentVolumeClaim
		w.exists(name, &claim)
		if have := claim.Spec.Resources.Requests[corev1.ResourceStorage]; have.Cmp(resource.MustParse(size)) != 0 {
			return "asks for " + have.String()
		}
		return ""
	})
}

func backupStorage(class, size string) func(*ramcloudv1.RAMCloudClusterSpec) {
	return func(spec *ramcloudv1.RAMCloudClusterSpec) {
		want := resource.MustParse(size)
		spec.Servers.BackupStorage.StorageClass, spec.Servers.BackupStorage.Size = &class, &want
	}
}

var serverClaims = []string{"data-demo-server-0", "data-demo-server-1", "data-demo-server-2"}

// A larger size reaches the claims, and the condition says when the volumes have it.
func TestVolumesGrow(t *testing.T) {
	w := newWorld(t, backupStorage("test-grows", "2Gi"))
	w.storageClass("test-grows", true)
	w.setServers(3)
	for _, name := range serverClaims {
		w.grown(name, "2Gi")
	}
	w.quiet()
	if meta.FindStatusCondition(w.cluster().Status.Conditions, ramcloudv1.ConditionResizing) != nil {
		t.Error("there is a condition Resizing, and no size was changed")
	}
	w.change(func(c *ramcloudv1.RAMCloudCluster) { backupStorage("test-grows", "3Gi")(&c.Spec) })
	for _, name := range serverClaims {
		w.asks(name, "3Gi")
	}
	w.condition("Resizing", metav1.ConditionTrue, ramcloudv1.ReasonVolumesGrowing)
	w.grown(serverClaims[0], "3Gi")
	w.until("the first one not to be named", func() string {
		if message := w.condition("Resizing", metav1.ConditionTrue, ramcloudv1.ReasonVolumesGrowing); strings.Contains(message, serverClaims[0]) {
			return message
		}
		return ""
	})
	w.grown(serverClaims[1], "3Gi")
	w.grown(serverClaims[2], "4Gi")
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonVolumesAsWanted)
	w.quiet()
}

// If the API server refuses the growth, the condition has its message, and the operator does not ask with
// every reconcile.
func TestVolumesThatCannotGrow(t *testing.T) {
	w := newWorld(t, backupStorage("test-stays", "2Gi"))
	w.storageClass("test-stays", false)
	w.setServers(3)
	for _, name := range serverClaims {
		w.grown(name, "2Gi")
	}
	w.quiet()
	w.change(func(c *ramcloudv1.RAMCloudCluster) { backupStorage("test-stays", "3Gi")(&c.Spec) })
	message := w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
	if !strings.Contains(message, "the storageclass that provisions the pvc must support resize") {
		t.Errorf("message: %s", message)
	}
	w.quiet() // counts refused writes, too

	// The user may take the size back, and a volume still cannot shrink.
	w.change(func(c *ramcloudv1.RAMCloudCluster) { backupStorage("test-stays", "2Gi")(&c.Spec) })
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonVolumesAsWanted)
	before := w.cluster()
	smaller := before.DeepCopy()
	backupStorage("test-stays", "2040Mi")(&smaller.Spec)
	if err := w.client.Patch(w.ctx, smaller, client.MergeFrom(before)); err == nil || !strings.Contains(err.Error(), "size is 2040Mi and was 2Gi: a volume cannot shrink") {
		t.Errorf("a smaller size: %v", err)
	}
	w.change(func(c *ramcloudv1.RAMCloudCluster) { backupStorage("test-stays", "3Gi")(&c.Spec) })
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
	allow := true
	var class storagev1.StorageClass
	check(t, w.client.Get(w.ctx, client.ObjectKey{Name: "test-stays"}, &class))
	class.AllowVolumeExpansion = &allow
	check(t, w.client.Update(w.ctx, &class))
	w.clockAhead.Store(int64(6 * time.Minute))
	w.poke(1)
	for _, name := range serverClaims {
		w.asks(name, "3Gi")
	}
	w.condition("Resizing", metav1.ConditionTrue, ramcloudv1.ReasonVolumesGrowing)
}
