package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

func TestClusterMetrics(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := ramcloudv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	four := int32(4)
	c := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo"}}
	c.Spec.Servers.Replicas = &four
	c.Status.Servers = ramcloudv1.ServersStatus{Replicas: 3, Ready: 2, Crashed: 1}
	c.Status.Data.TabletsUnavailable = 5
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "ServersNotUp"}, {Type: "Degraded", Status: "True", Reason: "X"}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(clusterMetrics{fake.NewClientBuilder().WithScheme(scheme).WithObjects(c).Build()})
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
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v (%t), want %v", name, value, there, want)
		}
	}
}
