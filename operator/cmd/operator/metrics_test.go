package main

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/specs"
)

func claim(cluster, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: specs.Labels(cluster, specs.ComponentServer)}}
}

func TestClusterMetrics(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(ramcloudv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	four := int32(4)
	c := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo"}}
	c.Spec.Servers.Replicas = &four
	c.Status.Servers = ramcloudv1.ServersStatus{Replicas: 3, Ready: 2, Crashed: 1}
	c.Status.Data.TabletsUnavailable = 5
	c.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	c.Spec.Coordinator.Replicas = 3
	c.Status.Etcd.Ready, c.Status.Coordinator.Ready = 1, 2
	going := claim("demo", "data-demo-server-1")
	going.Finalizers, going.DeletionTimestamp = []string{specs.FinalizerVolume}, &metav1.Time{Time: time.Unix(1, 0)}
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "ServersNotUp"}, {Type: "Degraded", Status: "True", Reason: "X"}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(clusterMetrics{fake.NewClientBuilder().WithScheme(scheme).WithObjects(c, claim("demo", "data-demo-server-0"), going).Build()})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			labels := []string{family.GetName()}
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			got[strings.Join(labels, " ")] = m.Gauge.GetValue()
		}
	}
	for name, want := range map[string]float64{
		"ramcloud_cluster_condition demo Ready n ServersNotUp": 0,
		"ramcloud_cluster_condition demo Degraded n X":         1,
		"ramcloud_cluster_servers demo n wanted":               4,
		"ramcloud_cluster_servers demo n existing":             3,
		"ramcloud_cluster_servers demo n up":                   2,
		"ramcloud_cluster_servers demo n crashed":              1,
		"ramcloud_cluster_tablets_unavailable demo n":          5,
		"ramcloud_cluster_segments_under_replicated demo n":    0,
		"ramcloud_cluster_pods_pending_restart demo n":         0,
		"ramcloud_cluster_coordinators demo n wanted":          3,
		"ramcloud_cluster_coordinators demo n ready":           2,
		"ramcloud_cluster_etcd_members demo n wanted":          3,
		"ramcloud_cluster_etcd_members demo n ready":           1,
		"ramcloud_cluster_volumes_terminating demo n":          1,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v (%t), want %v", name, value, there, want)
		}
	}
}

var update = flag.Bool("update", false, "write docs/reference/operator-metrics.md")

const reference = "../../../docs/reference/operator-metrics.md"

const referenceHead = `# The operator's metrics

<!-- Written from operator/cmd/operator/metrics.go: go test ./cmd/operator -update -->

The operator serves them at port 8443 over HTTPS, to those who may ` + "`GET /metrics`" + ` (bind the ClusterRole
` + "`ramcloud-operator-metrics-reader`" + `). Each of its replicas tells the same of every cluster: take ` + "`max`" + `, not ` + "`sum`" + `,
of gauges. Beside them are those of controller-runtime, Go and the process.

| name | labels | what |
|---|---|---|
`

var descText = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)", .*variableLabels: {([^}]*)}`)

// TestTheReferenceOfMetricsIsFresh writes or compares docs/reference/operator-metrics.md.
func TestTheReferenceOfMetricsIsFresh(t *testing.T) {
	descs := make(chan *prometheus.Desc, 100)
	clusterMetrics{}.Describe(descs)
	operator.ReconcileErrors.Describe(descs)
	close(descs)
	var rows []string
	for desc := range descs {
		parts := descText.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("cannot read %s", desc)
		}
		rows = append(rows, "| `"+parts[1]+"` | `"+strings.Join(strings.Split(parts[3], ","), "`, `")+"` | "+parts[2]+" |\n")
	}
	slices.Sort(rows)
	text := referenceHead + strings.Join(rows, "")
	if *update {
		if err := os.WriteFile(reference, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(reference)
	if err != nil || string(have) != text {
		t.Errorf("%s is stale (%v): go test ./cmd/operator -update", reference, err)
	}
}
