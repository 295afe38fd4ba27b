package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// clusterMetrics tells of every cluster what its status says, for alerts and dashboards. It reads the
// manager's cache when it is scraped and keeps nothing.
type clusterMetrics struct {
	reader client.Reader
}

var (
	byCluster     = []string{"namespace", "cluster"}
	conditionDesc = prometheus.NewDesc("ramcloud_cluster_condition",
		"1 while the condition of the RAMCloudCluster is True, 0 while it is not.", append(byCluster, "condition", "reason"), nil)
	serversDesc = prometheus.NewDesc("ramcloud_cluster_servers",
		"Servers: wanted by spec, existing, up and crashed.", append(byCluster, "state"), nil)
	unavailableDesc = prometheus.NewDesc("ramcloud_cluster_tablets_unavailable",
		"Tablets that no server serves.", byCluster, nil)
	lackingDesc = prometheus.NewDesc("ramcloud_cluster_segments_under_replicated",
		"Segments with fewer replicas than replicationFactor.", byCluster, nil)
	pendingDesc = prometheus.NewDesc("ramcloud_cluster_pods_pending_restart",
		"Pods that differ from what spec asks for, as far as status lists them.", byCluster, nil)
)

func (clusterMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{conditionDesc, serversDesc, unavailableDesc, lackingDesc, pendingDesc} {
		out <- desc
	}
}

func (m clusterMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var list ramcloudv1.RAMCloudClusterList
	if err := m.reader.List(ctx, &list); err != nil {
		out <- prometheus.NewInvalidMetric(conditionDesc, err)
		return
	}
	for i := range list.Items {
		collectCluster(&list.Items[i], out)
	}
}

func collectCluster(c *ramcloudv1.RAMCloudCluster, out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{c.Namespace, c.Name}, labels...)...)
	}
	s := &c.Status
	for _, condition := range s.Conditions {
		value := 0.0
		if condition.Status == metav1.ConditionTrue {
			value = 1
		}
		gauge(conditionDesc, value, condition.Type, condition.Reason)
	}
	if c.Spec.Servers.Replicas != nil {
		gauge(serversDesc, float64(*c.Spec.Servers.Replicas), "wanted")
	}
	gauge(serversDesc, float64(s.Servers.Replicas), "existing")
	gauge(serversDesc, float64(s.Servers.Ready), "up")
	gauge(serversDesc, float64(s.Servers.Crashed), "crashed")
	gauge(unavailableDesc, float64(s.Data.TabletsUnavailable))
	gauge(lackingDesc, float64(s.Data.Replication.UnderReplicated))
	gauge(pendingDesc, float64(len(s.PendingRestart)))
}
