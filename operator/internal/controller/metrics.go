package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// ReconcileErrors counts, for each cluster, the reconciles in which a step failed. controller-runtime counts them only
// for all clusters together.
var ReconcileErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "ramcloud_cluster_reconcile_errors_total",
	Help: "Reconciles in which a step failed; each is tried again with back-off.",
}, []string{"namespace", "cluster"})

// countReconcile notes how a reconcile ended. The counter exists from the first one, so that a rate sees the first error.
func countReconcile(cluster types.NamespacedName, err error) {
	counter := ReconcileErrors.WithLabelValues(cluster.Namespace, cluster.Name)
	if err != nil {
		counter.Inc()
	}
}

// forgetReconciles drops the counter of a cluster that no longer exists.
func forgetReconciles(cluster types.NamespacedName) {
	ReconcileErrors.DeleteLabelValues(cluster.Namespace, cluster.Name)
}
