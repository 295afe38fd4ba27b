package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/envtest"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// A claim that the API server does not let grow is not asked for with every reconcile, but again after a while, and at once
// for another size.
func TestARefusedSizeIsAskedForNowAndThen(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), ramcloudv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo"}}
	size := resource.MustParse("2Gi")
	cluster.Spec.Servers.BackupStorage.Size = &size
	claim := specs.ServerVolumeClaim(cluster, 0, 1)
	claim.UID, claim.Status.Phase = "a", corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	asked := 0
	refuse := true
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, next client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			asked++
			if refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, object.GetName(), errors.New("only dynamically provisioned"))
			}
			return next.Patch(ctx, object, patch, options...)
		},
	}).Build()
	now := time.Unix(1000, 0)
	r := &ClusterReconciler{Client: c, Recorder: events.NewFakeRecorder(10), Now: func() time.Time { return now }}
	grow := func() (o *observed, done steps) {
		var live corev1.PersistentVolumeClaim
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(claim), &live); err != nil {
			t.Fatal(err)
		}
		o = &observed{cluster: cluster, claims: map[string]*corev1.PersistentVolumeClaim{claim.Name: &live}, notGrown: map[string]string{}}
		o.generations = generationsOf(o.claims)
		r.growVolume(context.Background(), o, memberOf(o, plan.ID{Kind: plan.Server}), &done)
		return o, done
	}
	grow()
	if asked != 0 {
		t.Fatal("a claim that has its size was changed")
	}
	size = resource.MustParse("3Gi")
	for range 3 {
		o, done := grow()
		if asked != 1 || o.again != askAgainAfter || o.notGrown["demo-server-0"] == "" || done.err() != nil || len(done.of(wait)) != 1 {
			t.Fatalf("asked %d times, again after %s, %v, %s", asked, o.again, o.notGrown, done.summary())
		}
	}
	size = resource.MustParse("4Gi")
	if grow(); asked != 2 {
		t.Errorf("another size was not asked for")
	}
	refuse = false
	if grow(); asked != 2 {
		t.Errorf("asked again at once")
	}
	now = now.Add(askAgainAfter)
	o, done := grow()
	if have := o.claims[claim.Name].Spec.Resources.Requests[corev1.ResourceStorage]; asked != 3 || have.Cmp(size) != 0 || len(o.notGrown) != 0 || done.err() != nil {
		t.Errorf("asked %d times, the claim asks for %s, %v, %s", asked, have.String(), o.notGrown, done.summary())
	}
	if growing, not := o.resizes([]member{memberOf(o, plan.ID{Kind: plan.Server})}); len(growing) != 1 || len(not) != 0 {
		t.Errorf("growing %v, not %v", growing, not)
	}
}

// A refused size of memory is asked for again without an event: any reconcile in between replaces the time of the one
// before.
func TestARefusedMemoryIsAskedForAgainByItself(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &ClusterReconciler{Now: func() time.Time { return now }}
	r.noteRefusal("a", 512, "exceeded quota")
	for _, after := range []time.Duration{0, time.Minute, askAgainAfter - time.Second} {
		now = time.Unix(1000, 0).Add(after)
		o := &observed{}
		if no := r.refusal(o, "a"); no != (plan.Refusal{Size: 512, Why: "exceeded quota"}) || o.again != askAgainAfter-after {
			t.Errorf("after %s: %+v, again in %s", after, no, o.again)
		}
	}
	now = time.Unix(1000, 0).Add(askAgainAfter)
	o := &observed{}
	if no := r.refusal(o, "a"); no.Why != "" || o.again != 0 {
		t.Errorf("in the end: %+v, again in %s", no, o.again)
	}
}

// A pod that was deleted meanwhile is no API server without the subresource resize.
func TestAPodThatIsGoneIsNotInfeasible(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	missing := apierrors.NewGenericServerResponse(404, "PATCH", resource, "demo-server-0", "404 page not found", 0, true)
	for name, test := range map[string]struct {
		err        error
		infeasible bool
		how        outcome
	}{
		"the pod":         {apierrors.NewNotFound(resource, "demo-server-0"), false, retry},
		"the subresource": {missing, true, ""},
	} {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return test.err
			},
		}).Build()
		r := &ClusterReconciler{Client: c, Recorder: events.NewFakeRecorder(10), Now: func() time.Time { return time.Unix(1000, 0) }}
		o := &observed{cluster: &ramcloudv1.RAMCloudCluster{}}
		m := member{plan.ID{Kind: plan.Server}, "demo-server-0"}
		d := plan.Decision{Memory: map[plan.ID]plan.MemoryStep{}}
		var done steps
		r.askPod(context.Background(), o, d, m, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: m.name, Namespace: "n", UID: "a"}}, 512, &done)
		how := outcome("")
		if len(done) > 0 {
			how = done[0].outcome
		}
		if (d.Memory[m.id].Infeasible != "") != test.infeasible || how != test.how {
			t.Errorf("%s: %+v, %+v", name, d.Memory, done)
		}
	}
}

// The answers of an API server about a subresource that it does not have, and about a pod that no longer exists.
func TestAnAPIServerWithoutASubresource(t *testing.T) {
	c, err := client.New(envtest.Need(t), client.Options{Scheme: envtest.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, none := range map[string]bool{"resize": false, "of-a-later-version": true} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gone"}}
		err := c.SubResource(name).Patch(context.Background(), pod, client.RawPatch(types.StrategicMergePatchType, []byte("{}")))
		if noSubresource(err) != none || !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
