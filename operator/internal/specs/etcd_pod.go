package specs

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

const etcdDataPath = "/var/lib/etcd"

// EtcdPod builds the pod of etcd member `index`. image is used where spec names none. The members are
// fixed from the start; a member that starts again finds them in its own data.
func EtcdPod(cluster *ramcloudv1.RAMCloudCluster, index int32, image string) *corev1.Pod {
	name := EtcdName(cluster.Name, index)
	retention := "1h"
	if managed := cluster.Spec.Metadata.ManagedEtcd; managed != nil {
		if managed.Image != "" {
			image = managed.Image
		}
		if managed.AutoCompactionRetention != "" {
			retention = managed.AutoCompactionRetention
		}
	}
	url := func(host string, port int32) string { return "http://" + hostPort(host, port) }
	var members []string
	for i := range WantedEtcd(cluster) {
		member := EtcdName(cluster.Name, i)
		members = append(members, member+"="+url(Host(cluster, member), EtcdPeerPort))
	}
	pod := &corev1.Pod{ObjectMeta: memberMeta(cluster, name, ComponentEtcd, index)}
	pod.Spec = podSpec(cluster, name, container{
		name: ComponentEtcd, image: image, command: "/usr/local/bin/etcd", dataPath: etcdDataPath,
		args: []string{
			"--name=" + name,
			// A folder below the volume's: etcd wants it for itself, with rights of its own.
			"--data-dir=" + etcdDataPath + "/data",
			"--listen-peer-urls=" + url("0.0.0.0", EtcdPeerPort),
			"--initial-advertise-peer-urls=" + url(Host(cluster, name), EtcdPeerPort),
			"--listen-client-urls=" + url("0.0.0.0", EtcdClientPort),
			"--advertise-client-urls=" + url(Host(cluster, name), EtcdClientPort),
			"--listen-metrics-urls=" + url("0.0.0.0", EtcdMetricsPort),
			"--initial-cluster=" + strings.Join(members, ","),
			"--initial-cluster-state=new",
			"--initial-cluster-token=" + string(cluster.UID),
			"--auto-compaction-mode=periodic",
			"--auto-compaction-retention=" + retention,
			fmt.Sprintf("--quota-backend-bytes=%d", etcdVolumeBytes(cluster)/2),
		},
		ports: []corev1.ContainerPort{
			{Name: "client", ContainerPort: EtcdClientPort, Protocol: corev1.ProtocolTCP},
			{Name: "peer", ContainerPort: EtcdPeerPort, Protocol: corev1.ProtocolTCP},
			{Name: "http", ContainerPort: EtcdMetricsPort, Protocol: corev1.ProtocolTCP},
		},
		resources: etcdResources(cluster),
		// As Kubernetes probes its own etcd. A member without a majority is not ready, and not dead.
		startup: probe("/livez", 2, 90), ready: probe("/readyz", 5, 3), liveness: probe("/livez", 10, 12),
	})
	pod.Spec.TopologySpreadConstraints = spreadOverHosts(memberSelector(cluster, ComponentEtcd))
	return finish(cluster, pod, NodePorts{})
}
