package controller_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/envtest"
	"ramcloud.dev/operator/internal/specs"
)

func (w *world) flags(pod string) string {
	w.t.Helper()
	var p corev1.Pod
	w.exists(pod, &p)
	return strings.Join(p.Spec.Containers[0].Args, " ")
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	var secret corev1.Secret
	w.exists(specs.EtcdSecretName, &secret)
	return &secret
}

// A new etcd never had a plain connection. Its Secret comes back as it was when somebody deletes it.
func TestANewEtcdRequiresTLS(t *testing.T) {
	w, _ := startTrio(t)
	if stage := w.cluster().Status.Etcd.TLS; stage != "Required" {
		t.Errorf("the stage is %q", stage)
	}
	for i := range 3 {
		flags := w.flags(fmt.Sprintf("demo-etcd-%d", i))
		if strings.Contains(strings.ReplaceAll(flags, "--listen-metrics-urls=http://", ""), "http://") || !strings.Contains(flags, "--client-cert-auth") {
			t.Errorf("etcd %d: %s", i, flags)
		}
		if flags := w.flags(fmt.Sprintf("demo-coordinator-%d", i)); !strings.Contains(flags, "&ca=") {
			t.Errorf("coordinator %d: %s", i, flags)
		}
	}
	var policy networkingv1.NetworkPolicy
	w.exists(specs.EtcdPolicyName, &policy)
	before := w.secret()
	if len(before.OwnerReferences) != 1 || before.OwnerReferences[0].UID != w.cluster().UID || len(before.Data["demo.ca.key"]) == 0 {
		t.Errorf("%+v, %d entries", before.OwnerReferences, len(before.Data))
	}
	check(t, w.client.Delete(w.ctx, before))
	check(t, w.client.Delete(w.ctx, &policy))
	w.clockAhead.Add(int64(2 * time.Minute))
	w.poke(1)
	if after := w.secret(); !bytes.Equal(after.Data["demo.ca.key"], before.Data["demo.ca.key"]) || !bytes.Equal(after.Data["demo.etcd-1.crt"], before.Data["demo.etcd-1.crt"]) {
		t.Error("other certificates than those that the pods have")
	}
	w.exists(specs.EtcdPolicyName, &policy)
}

// Two clusters of a namespace share the Secret, and neither removes the other's entries; entries of a deleted
// cluster are removed.
func TestClustersShareTheSecret(t *testing.T) {
	w, _ := startTrio(t)
	first := w.secret()
	other := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "demo-2"}}
	withEtcd(&other.Spec)
	check(t, w.client.Create(w.ctx, other))
	w.exists("demo-2-etcd-0", &corev1.Pod{})
	both := w.secret()
	if len(both.Data) != 2*len(first.Data) || len(both.OwnerReferences) != 2 || !bytes.Equal(both.Data["demo.ca.crt"], first.Data["demo.ca.crt"]) {
		t.Errorf("%d entries after %d, %d owners", len(both.Data), len(first.Data), len(both.OwnerReferences))
	}
	w.quiet()
	check(t, w.client.Delete(w.ctx, other))
	w.until("the entries to go", func() string {
		if left := w.secret(); len(left.Data) != len(first.Data) || !bytes.Equal(left.Data["demo.ca.crt"], first.Data["demo.ca.crt"]) {
			return fmt.Sprintf("%d entries", len(left.Data))
		}
		return ""
	})
}

// plainTrio is an etcd that an earlier operator made, with its coordinators.
func plainTrio(t *testing.T) *manual { return plainTrioOf(t, "test") }

// plainTrioOf has images of this tag.
func plainTrioOf(t *testing.T, tag string) *manual {
	m := newManual(t, withEtcd)
	cluster := m.cluster()
	defaults := specs.Defaults{Image: "ramcloud/etcd:" + tag}
	for i := range int32(3) {
		check(t, m.client.Create(m.ctx, specs.EtcdVolumeClaim(cluster, i)))
		check(t, m.client.Create(m.ctx, specs.EtcdPod(cluster, i, defaults)))
		check(t, m.client.Create(m.ctx, specs.CoordinatorPod(cluster, i, specs.Defaults{Image: "ramcloud/node:" + tag}, specs.NodePorts{})))
	}
	cluster.Status.Etcd.Formed = true
	check(t, m.client.Status().Update(m.ctx, cluster))
	m.setServers(3)
	m.kubelet()
	return m
}

// kubelet lets all pods become ready, and says how many members of etcd there are.
func (m *manual) kubelet() (members int) {
	m.t.Helper()
	var pods corev1.PodList
	check(m.t, m.client.List(m.ctx, &pods, client.InNamespace(m.key.Namespace)))
	for _, pod := range pods.Items {
		if pod.Labels[specs.LabelComponent] == specs.ComponentEtcd {
			members++
		}
		if pod.Status.Phase != corev1.PodRunning {
			m.ready(pod.Name)
		}
	}
	return members
}

func TestARunningEtcdMovesToTLS(t *testing.T) {
	m := plainTrio(t)
	var reached []int32
	trouble := 0
	r := m.operator(m.coordinator.Address())
	r.Reach = func(_ context.Context, cluster *ramcloudv1.RAMCloudCluster, index int32) error {
		if !strings.Contains(m.flags(specs.EtcdName(cluster.Name, index)), "--listen-peer-urls=http://") {
			t.Errorf("member %d takes TLS already", index)
		}
		if trouble++; trouble%2 == 1 {
			return apierrors.NewServiceUnavailable("etcd takes no changes")
		}
		reached = append(reached, index)
		return nil
	}
	uids := func() (out []string) {
		var pods corev1.PodList
		check(t, m.client.List(m.ctx, &pods, client.InNamespace(m.key.Namespace)))
		for _, pod := range pods.Items {
			out = append(out, string(pod.UID))
		}
		return out
	}
	m.until("the coordinator", func() string {
		m.reconcile(r)
		m.kubelet()
		if !r.Watchers.Get(m.key, m.cluster().UID, m.coordinator.Address()).Connected {
			return "not connected"
		}
		return ""
	})
	before := uids()
	for range 3 {
		m.reconcile(r)
	}
	if s := m.cluster().Status; s.Etcd.TLS != "Off" || len(s.PendingRestart) != 0 || !slices.Equal(before, uids()) {
		t.Fatalf("a new operator changes what runs: %s, %+v", s.Etcd.TLS, s.PendingRestart)
	}
	m.exists(specs.EtcdPolicyName, &networkingv1.NetworkPolicy{})

	m.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "tls" })
	var stages []string
	m.until("TLS", func() string {
		_, err := r.Reconcile(m.ctx, ctrl.Request{NamespacedName: m.key})
		if err != nil && !strings.Contains(err.Error(), "takes no changes") {
			t.Fatal(err)
		}
		if n := m.kubelet(); n < 2 {
			t.Fatalf("%d members of etcd are left", n)
		}
		s := m.cluster().Status
		if !slices.Contains(stages, s.Etcd.TLS) {
			stages = append(stages, s.Etcd.TLS)
		}
		for i := range 3 {
			var pod corev1.Pod
			if err := m.client.Get(m.ctx, client.ObjectKey{Namespace: m.key.Namespace, Name: fmt.Sprintf("demo-etcd-%d", i)}, &pod); err != nil ||
				pod.Annotations[specs.AnnotationTLS] != "Required" {
				return fmt.Sprintf("at %s: member %d has %q (%v)", s.Etcd.TLS, i, pod.Annotations[specs.AnnotationTLS], err)
			}
		}
		return ""
	})
	if want := []string{"Off", "Offered", "Used", "Required"}; !slices.Equal(stages, want) && !slices.Equal(stages, want[1:]) {
		t.Errorf("the stages were %v", stages)
	}
	if !slices.Equal(reached, []int32{0, 1, 2}) {
		t.Errorf("reached by TLS, in this order: %v", reached)
	}
	for i := range 3 {
		var claim corev1.PersistentVolumeClaim
		m.exists(fmt.Sprintf("data-demo-etcd-%d", i), &claim)
		if claim.Annotations[specs.AnnotationPeerTLS] == "" {
			t.Errorf("the claim of member %d does not say how it is reached", i)
		}
		if flags := m.flags(fmt.Sprintf("demo-coordinator-%d", i)); !strings.Contains(flags, "&ca=") {
			t.Errorf("coordinator %d: %s", i, flags)
		}
	}
	after := uids()
	for range 3 {
		m.reconcile(r)
	}
	if s := m.cluster().Status; len(s.PendingRestart) > 3 || !slices.Equal(after, uids()) { // the servers were made before the request
		t.Errorf("it does not come to rest: %+v", s.PendingRestart)
	}
}

// Two rights by name are enough to make the Secret and to renew it: applying creates under the name that it
// asks for. Other Secrets cannot be read.
func TestTheSecretIsMadeWithRightsByName(t *testing.T) {
	w := newManual(t, nil)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "named-" + w.key.Namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{specs.EtcdSecretName}, Verbs: []string{"get", "create", "patch"}}}}
	check(t, w.client.Create(w.ctx, role))
	check(t, w.client.Create(w.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role.Name}}}))
	config := envtest.Need(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: role.Name}
	limited, err := client.New(config, client.Options{Scheme: envtest.Scheme})
	check(t, err)
	apply := func(name string) error {
		return limited.Apply(w.ctx, corev1ac.Secret(name, w.key.Namespace).WithData(map[string][]byte{"a": []byte("b")}), client.FieldOwner("test"), client.ForceOwnership)
	}
	w.until("the right to be known", func() string {
		if err := apply(specs.EtcdSecretName); err != nil {
			return err.Error()
		}
		return ""
	})
	check(t, apply(specs.EtcdSecretName))
	check(t, limited.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: specs.EtcdSecretName}, &corev1.Secret{}))
	for what, err := range map[string]error{
		"making another":  apply("another"),
		"creating it":     limited.Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "another"}}),
		"reading another": limited.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: "another"}, &corev1.Secret{}),
		"listing":         limited.List(w.ctx, &corev1.SecretList{}, client.InNamespace(w.key.Namespace)),
		"deleting":        limited.Delete(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: specs.EtcdSecretName}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
