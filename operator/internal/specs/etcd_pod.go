package specs

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

const (
	etcdDataPath = "/var/lib/etcd"
	stateFlag    = "--initial-cluster-state"
	membersFlag  = "--initial-cluster"
)

// EtcdPod builds the pod of etcd member `index`. The members are fixed from the start; a restarted member
// finds them in its own data.
func EtcdPod(cluster *ramcloudv1.RAMCloudCluster, index int32, defaults Defaults) *corev1.Pod {
	name, image := EtcdName(cluster.Name, index), defaults.Image
	retention := "1h"
	if managed := cluster.Spec.Metadata.ManagedEtcd; managed != nil {
		if managed.Image != "" {
			image = managed.Image
		}
		if managed.AutoCompactionRetention != "" {
			retention = managed.AutoCompactionRetention
		}
	}
	pod := &corev1.Pod{ObjectMeta: memberMeta(cluster, name, ComponentEtcd, index)}
	pod.Spec = podSpec(cluster, name, container{
		name: ComponentEtcd, image: image, priorityClass: defaults.PriorityClass,
		command: "/usr/local/bin/etcd", dataPath: etcdDataPath,
		args: []string{
			"--name=" + name,
			// A folder below the volume's root, because etcd sets the permissions of its data folder.
			"--data-dir=" + etcdDataPath + "/data",
			// Plain addresses; secure changes them for the stage of TLS.
			"--listen-peer-urls=" + urls(false, defaults.anyAddress(), EtcdPeerPort),
			"--initial-advertise-peer-urls=" + EtcdPeerURL(cluster, index, false),
			"--listen-client-urls=" + urls(false, defaults.anyAddress(), EtcdClientPort),
			"--advertise-client-urls=" + urls(false, Host(cluster, name), EtcdClientPort),
			"--listen-metrics-urls=" + urls(false, defaults.anyAddress(), EtcdMetricsPort),
			initialCluster(cluster, func(int32) bool { return false }),
			stateFlag + "=new",
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
		// The same probes as for Kubernetes' own etcd. A member without a majority is not ready, but not dead.
		startup: probe("/livez", 2, 90), ready: probe("/readyz", 5, 3), liveness: probe("/livez", 10, 12),
	})
	pod.Spec.TopologySpreadConstraints = spreadOverHosts(memberSelector(cluster, ComponentEtcd))
	secure(cluster, pod, index, stageOf(cluster, pod, index, defaults.Trust))
	finish(cluster, pod, NodePorts{})
	noteTrust(pod, defaults.Trust)
	notTemplate(cluster, pod.Spec.Containers[0].Args, defaults.Trust)
	return pod
}

// notTemplate sets the flags that only a member without data uses. They are not part of the template, and
// change while members move to TLS: the addresses of the other members, and, once the etcd exists, that it
// joins the existing one instead of creating a new one.
func notTemplate(cluster *ramcloudv1.RAMCloudCluster, args []string, trust Trust) {
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, membersFlag+"="):
			args[i] = initialCluster(cluster, func(i int32) bool { return trust.SecurePeers[i] })
		case arg == stateFlag+"=new" && cluster.Status.Etcd.Formed:
			args[i] = stateFlag + "=existing"
		}
	}
}

func initialCluster(cluster *ramcloudv1.RAMCloudCluster, secure func(int32) bool) string {
	var members []string
	for i := range WantedEtcd(cluster) {
		members = append(members, EtcdName(cluster.Name, i)+"="+EtcdPeerURL(cluster, i, secure(i)))
	}
	return membersFlag + "=" + strings.Join(members, ",")
}

// EtcdPeerURL is the URL by which the other members reach member `index`, with TLS or without; it is stored
// in the etcd's data.
func EtcdPeerURL(cluster *ramcloudv1.RAMCloudCluster, index int32, secure bool) string {
	return urls(secure, Host(cluster, EtcdName(cluster.Name, index)), EtcdPeerPort)
}

func urls(secure bool, host string, port int32) string {
	if secure {
		return "https://" + hostPort(host, port)
	}
	return "http://" + hostPort(host, port)
}

// EtcdService gives member `index` an address that stays when its pod is re-created. Name servers cache the
// address of a pod's name, half a minute by default: if members are restarted one after the other,
// coordinators would reach none of them.
func EtcdService(cluster *ramcloudv1.RAMCloudCluster, index int32) *corev1.Service {
	m := memberMeta(cluster, EtcdName(cluster.Name, index), ComponentEtcd, index)
	selector := memberSelector(cluster, ComponentEtcd)
	selector[LabelMember] = m.Labels[LabelMember]
	return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: selector, PublishNotReadyAddresses: true,
		Ports: []corev1.ServicePort{tcpPort("client", EtcdClientPort, EtcdClientPort, 0)},
	}}
}

// EtcdClientAddress is the address of member `index` for clients, by its Service: host:port.
func EtcdClientAddress(cluster *ramcloudv1.RAMCloudCluster, index int32) string {
	return hostPort(fmt.Sprintf("%s.%s.svc", EtcdName(cluster.Name, index), cluster.Namespace), EtcdClientPort)
}
