package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// clusterMetrics exports the status of every cluster for alerts and dashboards. It reads the manager's cache
// when it is scraped, and has no state.
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
	coordinatorsDesc = prometheus.NewDesc("ramcloud_cluster_coordinators",
		"Coordinators: wanted by spec, and those whose pods are ready.", append(byCluster, "state"), nil)
	etcdDesc = prometheus.NewDesc("ramcloud_cluster_etcd_members",
		"Members of the etcd that the operator runs: wanted by spec, and those whose pods are ready.", append(byCluster, "state"), nil)
	terminatingDesc = prometheus.NewDesc("ramcloud_cluster_volumes_terminating",
		"Volume claims that were deleted and still exist.", byCluster, nil)
	pendingDesc = prometheus.NewDesc("ramcloud_cluster_pods_pending_restart",
		"Pods that differ from what spec asks for, as far as status lists them.", byCluster, nil)
)

func (clusterMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{conditionDesc, serversDesc, unavailableDesc, lackingDesc, coordinatorsDesc, etcdDesc,
		terminatingDesc, pendingDesc} {
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
	terminating, err := m.terminating(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(terminatingDesc, err)
		return
	}
	for i := range list.Items {
		c := &list.Items[i]
		collectCluster(c, terminating[client.ObjectKeyFromObject(c)], out)
	}
}

// terminating counts the volume claims that were deleted and still exist, by cluster. The condition Degraded
// mentions them, too, but has only the reason of the worst problem.
func (m clusterMetrics) terminating(ctx context.Context) (map[client.ObjectKey]int, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := m.reader.List(ctx, &claims, client.MatchingLabels{specs.LabelManagedBy: specs.ManagedBy}); err != nil {
		return nil, err
	}
	out := map[client.ObjectKey]int{}
	for i := range claims.Items {
		if claim := &claims.Items[i]; claim.DeletionTimestamp != nil {
			out[client.ObjectKey{Namespace: claim.Namespace, Name: claim.Labels[specs.LabelCluster]}]++
		}
	}
	return out, nil
}

func collectCluster(c *ramcloudv1.RAMCloudCluster, terminating int, out chan<- prometheus.Metric) {
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
	gauge(coordinatorsDesc, float64(specs.WantedCoordinators(c)), "wanted")
	gauge(coordinatorsDesc, float64(s.Coordinator.Ready), "ready")
	if members := specs.WantedEtcd(c); members > 0 {
		gauge(etcdDesc, float64(members), "wanted")
		gauge(etcdDesc, float64(s.Etcd.Ready), "ready")
	}
	gauge(terminatingDesc, float64(terminating))
	gauge(pendingDesc, float64(len(s.PendingRestart)))
}
