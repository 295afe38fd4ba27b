package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// working is a cluster of three members of etcd and three coordinators, with their pods.
func working() []client.Object {
	c := cluster("demo")
	c.Spec.Coordinator.Replicas = 3
	c.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	out := []client.Object{c}
	etcd, coordinators := members(c)
	for _, name := range slices.Concat(etcd, coordinators, servers(c)) {
		out = append(out, memberPod(c, name, "first", ""))
	}
	return out
}

// memberPod is a pod as the operator makes it.
func memberPod(c *ramcloudv1.RAMCloudCluster, name, uid, request string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name, UID: types.UID(uid), Labels: specs.Labels(c.Name, ""),
		Annotations:     map[string]string{specs.AnnotationRestart: request},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, ramcloudv1.GroupVersion.WithKind("RAMCloudCluster"))}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// world is a fake API server with an operator that does its part at once, unless it is away.
type world struct {
	client.Client
	away    bool
	dry     bool // the last change was a server's dry run
	patches []string
	evicted []string
	refuse  error // of evictions
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{}
	w.Client = fakeClient(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			text, err := patch.Data(o)
			if err != nil {
				return err
			}
			w.patches, w.dry = append(w.patches, string(text)), slices.Contains(options, client.PatchOption(client.DryRunAll))
			if err := c.Patch(ctx, o, patch, options...); err != nil || w.dry || w.away {
				return err
			}
			return w.operate(ctx, c, o.(*ramcloudv1.RAMCloudCluster).DeepCopy())
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, what client.Object, options ...client.SubResourceCreateOption) error {
			w.dry = slices.Contains(options, client.SubResourceCreateOption(client.DryRunAll))
			if w.refuse != nil || w.dry {
				return w.refuse
			}
			if uid := what.(*policyv1.Eviction).DeleteOptions.Preconditions.UID; sub != "eviction" || uid == nil || *uid != "first" {
				return errors.New("this is not an eviction of the pod that was looked at")
			}
			w.evicted = append(w.evicted, o.GetName())
			if err := c.SubResource(sub).Create(ctx, o, what, options...); err != nil || w.away {
				return err
			}
			var owner ramcloudv1.RAMCloudCluster
			if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, &owner); err != nil {
				return err
			}
			return c.Create(ctx, memberPod(&owner, o.GetName(), "second", ""))
		},
	}, objects...)
	return w
}

// operate does what the operator does when the spec has changed.
func (w *world) operate(ctx context.Context, c client.Client, now *ramcloudv1.RAMCloudCluster) error {
	status := metav1.Condition{Type: ramcloudv1.ConditionPaused, Status: metav1.ConditionFalse, Reason: "x", ObservedGeneration: now.Generation}
	if isPaused(now) {
		status.Status = metav1.ConditionTrue
	}
	now.Status.Conditions = []metav1.Condition{status}
	if err := c.Status().Update(ctx, now); err != nil {
		return err
	}
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		list.Items[i].Annotations[specs.AnnotationRestart] = now.Spec.Update.RestartRequest
		if err := c.Update(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) run(t *testing.T, args string) (string, error) {
	t.Helper()
	return runOn(t, w, func(*cobra.Command) {}, strings.Fields(args)...)
}

func (w *world) spec(t *testing.T) ramcloudv1.RAMCloudClusterSpec {
	t.Helper()
	var c ramcloudv1.RAMCloudCluster
	if err := w.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo"}, &c); err != nil {
		t.Fatal(err)
	}
	return c.Spec
}

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t, working()...)
	for _, step := range []struct {
		args, said, patch string
		paused            bool
	}{
		{"pause demo --dry-run=client", "paused (dry run)", "", false},
		{"pause demo --dry-run=server", "paused (server dry run)", `{"spec":{"paused":true}}`, false},
		{"pause --wait", "paused", `{"spec":{"paused":true}}`, true},
		{"pause demo", "already paused", "", true},
		{"resume demo --dry-run=client", "resumed (dry run)", "", true},
		{"resume demo --wait", "resumed", `{"spec":{"paused":null}}`, false},
		{"resume demo --wait", "already resumed", "", false},
	} {
		w.patches = nil
		out, err := w.run(t, step.args)
		if want := "ramcloudcluster.ramcloud.dev/demo " + step.said + "\n"; err != nil || out != want {
			t.Errorf("%s: %v\n%swant\n%s", step.args, err, out, want)
		}
		if got := strings.Join(w.patches, " "); got != step.patch {
			t.Errorf("%s: the patch is %q, want %q", step.args, got, step.patch)
		}
		if spec := w.spec(t); spec.Paused != step.paused {
			t.Errorf("%s: spec.paused is %v", step.args, spec.Paused)
		}
	}
}

// The old name of the field goes with the new one: both together are refused.
func TestResumeKnowsTheOldField(t *testing.T) {
	objects := working()
	objects[0].(*ramcloudv1.RAMCloudCluster).Spec.DeprecatedPause = true
	w := newWorld(t, objects...)
	if out, err := w.run(t, "pause demo"); err != nil || !strings.Contains(out, "already paused") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := w.run(t, "resume demo"); err != nil || !strings.Contains(out, "demo resumed") || isPaused(&ramcloudv1.RAMCloudCluster{Spec: w.spec(t)}) {
		t.Errorf("%v\n%s%v", err, out, w.patches)
	}
}

func TestPauseWaitsForTheOperator(t *testing.T) {
	w := newWorld(t, working()...)
	w.away = true
	_, err := w.run(t, "pause demo --wait --timeout=50ms")
	if got := codeOf(err, true); got != exitTimedOut || !strings.Contains(err.Error(), "has not seen the newest spec") {
		t.Errorf("exit code %d: %v", got, err)
	}
}

func TestOutputsOfAChange(t *testing.T) {
	w := newWorld(t, working()...)
	if out, err := w.run(t, "pause demo -o name"); err != nil || out != "ramcloudcluster.ramcloud.dev/demo\n" {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := w.run(t, "resume demo --dry-run=client -o yaml")
	if err != nil || !strings.Contains(out, "kind: RAMCloudCluster\n") || strings.Contains(out, "paused: true") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRestartAsksTheOperator(t *testing.T) {
	w := newWorld(t, working()...)
	for _, dry := range []string{"client", "server"} {
		if out, err := w.run(t, "restart demo --wait --dry-run="+dry); err != nil || !strings.Contains(out, "demo restarted (") || w.spec(t).Update.RestartRequest != "" {
			t.Errorf("%s: %v\n%s", dry, err, out)
		}
	}
	out, err := w.run(t, "restart demo --wait")
	first := w.spec(t).Update.RestartRequest
	if err != nil || out != "ramcloudcluster.ramcloud.dev/demo restarted\n" || first == "" {
		t.Errorf("%v\n%s%q", err, out, first)
	}
	w.away = true
	_, err = w.run(t, "restart demo --wait --timeout=50ms")
	if second := w.spec(t).Update.RestartRequest; codeOf(err, true) != exitTimedOut || !strings.Contains(err.Error(), "0 of 10") || second == first {
		t.Errorf("%v, request %q after %q", err, second, first)
	}
	if len(w.evicted) > 0 {
		t.Errorf("evicted %v", w.evicted)
	}
}

func TestRestartOfSome(t *testing.T) {
	for _, test := range []struct {
		args    string
		evicted string
	}{
		{"--member=demo-etcd-1", "demo-etcd-1"},
		{"--member=demo-coordinator-2 --wait", "demo-coordinator-2"},
		{"--component=etcd", "demo-etcd-0 demo-etcd-1 demo-etcd-2"},
		{"--component=coordinator --wait", "demo-coordinator-0 demo-coordinator-1 demo-coordinator-2"},
		{"--component=coordinator --dry-run=client", ""},
		{"--component=coordinator --dry-run=server", ""},
	} {
		w := newWorld(t, working()...)
		out, err := w.run(t, "restart demo "+test.args)
		if got := strings.Join(w.evicted, " "); err != nil || got != test.evicted {
			t.Errorf("%s: %v, evicted %q\n%s", test.args, err, got, out)
		}
		if len(w.patches) > 0 || !strings.Contains(out, "pod/demo-") {
			t.Errorf("%s: %v\n%s", test.args, w.patches, out)
		}
	}
}

// One at a time: while the first is away, the second stays.
func TestRestartOfSomeWaitsForEach(t *testing.T) {
	w := newWorld(t, working()...)
	w.away = true
	_, err := w.run(t, "restart demo --component=etcd --timeout=50ms")
	if got := strings.Join(w.evicted, " "); codeOf(err, true) != exitTimedOut || got != "demo-etcd-0" {
		t.Errorf("%v, evicted %q", err, got)
	}
}

func TestRestartIsRefused(t *testing.T) {
	paused, plain := working(), []client.Object{cluster("demo")}
	paused[0].(*ramcloudv1.RAMCloudCluster).Spec.Paused = true
	stranger := working()
	stranger[1].SetOwnerReferences(nil)
	for _, test := range []struct {
		objects    []client.Object
		args, want string
	}{
		{working(), "--member=demo-server-1", "only the operator restarts servers"},
		{working(), "--member=demo-server-1", "accepted: demo-etcd-0, demo-etcd-1, demo-etcd-2, demo-coordinator-0"},
		{working(), "--component=server", "accepted: coordinator, etcd"},
		{working(), "--component=disk", "--component is disk; accepted: coordinator, etcd"},
		{working(), "--member=etcd-7", "--member is etcd-7; accepted: demo-etcd-0"},
		{plain, "--component=etcd", "the operator runs none"},
		{plain, "--member=demo-coordinator-0", "there is no pod demo-coordinator-0 now"},
		{stranger, "--member=demo-etcd-0", "does not belong"},
		{paused, "", "is paused"},
		{paused, "--member=demo-etcd-0", "is paused"},
	} {
		w := newWorld(t, test.objects...)
		out, err := w.run(t, "restart demo "+test.args)
		if err == nil || !strings.Contains(err.Error(), test.want) || len(w.patches)+len(w.evicted) > 0 || out != "" {
			t.Errorf("%s: %v, want %q; %v %v\n%s", test.args, err, test.want, w.patches, w.evicted, out)
		}
	}
	w := newWorld(t, working()...)
	w.refuse = apierrors.NewTooManyRequests("disruption budget", 0)
	if _, err := w.run(t, "restart demo --member=demo-etcd-0"); err == nil || !strings.Contains(err.Error(), "is needed now") {
		t.Errorf("%v", err)
	}
}

// If somebody asks for another restart meanwhile, the command reports it at once.
func TestRestartOvertaken(t *testing.T) {
	c := cluster("demo")
	c.Spec.Update.RestartRequest = "another"
	if _, _, err := rolled(c, nil, "mine"); !errors.As(err, new(giveUp)) {
		t.Errorf("%v", err)
	}
}

// A restart that the operator refuses will not come, so the command does not wait. A status of an earlier
// generation does not count.
func TestRestartThatIsRefusedByTheOperator(t *testing.T) {
	c := cluster("demo")
	c.Generation, c.Spec.Update.RestartRequest = 3, "mine"
	for observed, want := range map[int64]bool{2: false, 3: true} {
		c.Status.Conditions = []metav1.Condition{{Type: ramcloudv1.ConditionUpToDate, Status: metav1.ConditionFalse,
			Reason: ramcloudv1.ReasonRollRefused, Message: "two versions at once", ObservedGeneration: observed}}
		_, _, err := rolled(c, nil, "mine")
		if errors.As(err, new(giveUp)) != want || want && !strings.Contains(err.Error(), "two versions at once") {
			t.Errorf("generation %d: %v", observed, err)
		}
	}
}
