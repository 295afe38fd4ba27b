package v1alpha1_test

import (
	"context"
	"os"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

func newClient(t *testing.T) client.Client {
	c, err := client.New(envtest.Need(t), client.Options{Scheme: envtest.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// create sends a cluster as a user would write it, so that nothing of the Go types fills in for the schema.
func create(t *testing.T, c client.Client, name, spec string) (*ramcloudv1.RAMCloudCluster, error) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("ramcloud.dev/v1alpha1")
	u.SetKind("RAMCloudCluster")
	u.SetNamespace("default")
	u.SetName(name)
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	if fields != nil {
		u.Object["spec"] = fields
	}
	if err := c.Create(context.Background(), u); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), u) })
	cluster := &ramcloudv1.RAMCloudCluster{}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(u), cluster); err != nil {
		t.Fatal(err)
	}
	return cluster, nil
}

func TestDefaults(t *testing.T) {
	c := newClient(t)
	for _, spec := range []string{"", "{}", "servers: {}", "servers: {memory: {}}\nexpose: {}"} {
		cluster, err := create(t, c, "defaults", spec)
		if err != nil {
			t.Fatalf("%q: %v", spec, err)
		}
		s := cluster.Spec
		if s.Servers.Replicas == nil || *s.Servers.Replicas != 3 || s.ReplicationFactor != 2 || s.FailureDomain != "server" ||
			s.Servers.Memory.Log.String() != "256Mi" || s.Servers.Memory.HashTableFraction.AsApproximateFloat64() != 0.125 ||
			s.Expose.Type != "None" || s.PVCRetention != "Retain" {
			t.Errorf("%q: defaults are %+v", spec, s)
		}
		if err := c.Delete(context.Background(), cluster); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	c := newClient(t)
	for _, test := range []struct {
		name, object, spec string
		want               []string // parts of the message
	}{
		{"fewer servers than replicas need", "x", "servers: {replicas: 2}\nreplicationFactor: 2", []string{
			"spec.servers.replicas is 2 and spec.replicationFactor is 2: every segment needs 2 replicas on other servers than its own; accepted: servers.replicas >= 3"}},
		{"a volume that is too small", "x", "servers: {backupStorage: {size: 1023Mi}}", []string{
			"spec.servers.backupStorage.size is 1023Mi", "replicationFactor (2) times servers.memory.log (256Mi)", "accepted: at least 1073741824 bytes"}},
		{"no log", "x", "servers: {memory: {log: 32Mi}}", []string{"spec.servers.memory.log is 32Mi; accepted: a whole number of bytes, at least 64Mi"}},
		{"a broken log size", "x", "servers: {memory: {log: 1500m}}", []string{"spec.servers.memory.log is 1500m; accepted"}},
		{"a hash table larger than the log", "x", "servers: {memory: {hashTableFraction: '1.5'}}", []string{
			"hashTableFraction is", "accepted: more than 0 and at most 1"}},
		{"no hash table", "x", "servers: {memory: {hashTableFraction: '0'}}", []string{"hashTableFraction is 0; accepted"}},
		{"an empty volume", "x", "coordinator: {storage: {size: '0'}}", []string{"size is 0; accepted: a whole number of bytes, more than 0"}},
		{"a failure domain that does not exist", "x", "failureDomain: rack", []string{`spec.failureDomain: Unsupported value: "rack"`, `"server", "node", "zone"`}},
		{"an unknown way to expose", "x", "expose: {type: LoadBalancer}", []string{`spec.expose.type: Unsupported value: "LoadBalancer"`, `"None", "NodePort"`}},
		{"an unknown retention", "x", "pvcRetention: Keep", []string{`spec.pvcRetention: Unsupported value: "Keep"`, `"Retain", "Delete"`}},
		{"no replicas at all", "x", "replicationFactor: 0", []string{"spec.replicationFactor", "greater than or equal to 1"}},
		{"no servers", "x", "servers: {replicas: 0}", []string{"spec.servers.replicas", "greater than or equal to 1"}},
		{"a name with a dot", "a.b", "{}", []string{"metadata.name is a.b; accepted: at most 40 of a-z, 0-9 and -"}},
		{"a name that is too long", strings.Repeat("a", 41), "{}", []string{"accepted: at most 40"}},
		{"a name that begins with a digit", "1a", "{}", []string{"metadata.name is 1a; accepted"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := create(t, c, test.object, test.spec)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the message lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	c := newClient(t)
	for name, spec := range map[string]string{
		"smallest":      "servers: {replicas: 2, memory: {log: 64Mi}}\nreplicationFactor: 1",
		"exact-volume":  "servers: {backupStorage: {size: 1Gi}}",
		"number-volume": "servers: {backupStorage: {size: 1073741824}}",
		"whole-table":   "servers: {memory: {hashTableFraction: 1}}",
		"all": "coordinator: {resources: {requests: {cpu: 10m}}}\nfailureDomain: zone\nexpose: {type: NodePort}\n" +
			"images: {node: 'a/b:1'}\npvcRetention: Delete\nservers: {replicas: 5, template: {tolerations: [{operator: Exists}]}}",
	} {
		if _, err := create(t, c, name, spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheSampleIsAccepted(t *testing.T) {
	c := newClient(t)
	text, err := os.ReadFile("../../../manifests/samples/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict) // an unknown field is an error
	if err := strict.Create(context.Background(), sample, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
}

func TestScaleSubresource(t *testing.T) {
	ctx, c := context.Background(), newClient(t)
	cluster, err := create(t, c, "scaled", "servers: {replicas: 4}")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Status.Servers.Replicas, cluster.Status.Selector = 4, "a=b"
	if err := c.Status().Update(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(ctx, cluster, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 4 || scale.Status.Replicas != 4 || scale.Status.Selector != "a=b" {
		t.Errorf("scale is %+v", scale)
	}
	scale.Spec.Replicas = 6
	if err := c.SubResource("scale").Update(ctx, cluster, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	if *cluster.Spec.Servers.Replicas != 6 {
		t.Errorf("scaled to %d", *cluster.Spec.Servers.Replicas)
	}
	// Scaling below what the replication factor needs is accepted, and answered by ScaleBlocked …
	if err := c.SubResource("scale").Get(ctx, cluster, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 2
	if err := c.SubResource("scale").Update(ctx, cluster, client.WithSubResourceBody(scale)); err != nil {
		t.Errorf("scaling below the replication factor: %v", err)
	}
	// … but asking for more replicas than there are servers for is not.
	if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.ReplicationFactor = 3
	if err := c.Update(ctx, cluster); err == nil || !strings.Contains(err.Error(), "accepted: servers.replicas >= 4") {
		t.Errorf("raising the replication factor: %v", err)
	}
}

func TestAServersSpecDoesNotChange(t *testing.T) {
	ctx, c := context.Background(), newClient(t)
	server := &ramcloudv1.RAMCloudServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fixed"},
		Spec:       ramcloudv1.RAMCloudServerSpec{ClusterName: "demo", Index: 1},
	}
	if err := c.Create(ctx, server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(ctx, server) })
	server.Spec.Index = 2
	err := c.Update(ctx, server)
	if err == nil || !strings.Contains(err.Error(), "change the RAMCloudCluster") {
		t.Errorf("changing a server: %v", err)
	}
}
