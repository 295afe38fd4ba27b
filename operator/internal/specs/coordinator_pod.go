package specs

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

const (
	etcdTLSPath = "/etc/ramcloud/etcd"
	// etcdTLSFiles are the coordinator's options for its certificate and its trusted authorities.
	etcdTLSFiles = "&ca=" + etcdTLSPath + "/ca.crt&cert=" + etcdTLSPath + "/tls.crt&key=" + etcdTLSPath + "/tls.key"
)

// CoordinatorPod builds coordinator `index`'s pod.
func CoordinatorPod(cluster *ramcloudv1.RAMCloudCluster, index int32, defaults Defaults, ports NodePorts) *corev1.Pod {
	name, anywhere := CoordinatorName(cluster.Name, index), defaults.anyAddress()
	args := []string{
		"coordinator",
		"--cluster-name=" + cluster.Namespace + "/" + cluster.Name,
		"--listen=" + hostPort(anywhere, CoordinatorPort),
		"--advertise=" + hostPort(Host(cluster, name), CoordinatorPort),
		"--admin-listen=" + hostPort(anywhere, CoordinatorAdminPort),
		"--admin-advertise=" + hostPort(Host(cluster, name), CoordinatorAdminPort),
		"--http-listen=" + hostPort(anywhere, CoordinatorHTTPPort),
		"--metadata=" + metadataFlag(cluster),
		"--log-format=json",
	}
	containerPorts := []corev1.ContainerPort{
		{Name: "rpc", ContainerPort: CoordinatorPort, Protocol: corev1.ProtocolTCP},
		{Name: "admin", ContainerPort: CoordinatorAdminPort, Protocol: corev1.ProtocolTCP},
		{Name: "http", ContainerPort: CoordinatorHTTPPort, Protocol: corev1.ProtocolTCP},
	}
	if Exposed(cluster) {
		args = append(args,
			"--listen-outside="+hostPort(anywhere, CoordinatorOutsidePort),
			"--advertise-outside="+outsideFlag(ports, ports.RPC, defaults.IPv6),
			"--admin-advertise-outside="+outsideFlag(ports, ports.Admin, defaults.IPv6))
		containerPorts = append(containerPorts,
			corev1.ContainerPort{Name: "outside", ContainerPort: CoordinatorOutsidePort, Protocol: corev1.ProtocolTCP})
	}
	c := daemon(container{
		name: ComponentCoordinator, image: node(cluster, defaults.Image), priorityClass: defaults.PriorityClass,
		args: args, env: environment(cluster), ports: containerPorts, resources: coordinatorResources(cluster),
	})
	if MetadataOnVolume(cluster) {
		c.dataPath = dataPath
	}
	pod := &corev1.Pod{ObjectMeta: memberMeta(cluster, name, ComponentCoordinator, index)}
	pod.Spec = podSpec(cluster, name, c)
	if etcd := cluster.Spec.Metadata.Etcd; etcd != nil && etcd.TLSSecretRef != nil {
		mount(&pod.Spec, etcdTLSPath, corev1.Volume{Name: etcdTLSVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: etcd.TLSSecretRef.Name}}})
	}
	if WantedCoordinators(cluster) > 1 {
		pod.Spec.TopologySpreadConstraints = spreadOverHosts(memberSelector(cluster, ComponentCoordinator))
	}
	secure(cluster, pod, index, stageOf(cluster, pod, index, defaults.Trust))
	finish(cluster, pod, ports)
	noteTrust(pod, defaults.Trust)
	return pod
}

// MetadataOnVolume says whether the coordinator keeps the metadata on a volume of its own.
func MetadataOnVolume(cluster *ramcloudv1.RAMCloudCluster) bool {
	m := cluster.Spec.Metadata
	return m.Etcd == nil && m.ManagedEtcd == nil
}

// metadataFlag is the value of the coordinators' --metadata.
func metadataFlag(cluster *ramcloudv1.RAMCloudCluster) string {
	prefix := "/ramcloud/" + cluster.Namespace + "/" + cluster.Name
	switch m := cluster.Spec.Metadata; {
	case m.ManagedEtcd != nil:
		var endpoints []string
		for index := range WantedEtcd(cluster) {
			endpoints = append(endpoints, EtcdClientAddress(cluster, index))
		}
		return "etcd:" + strings.Join(endpoints, ",") + "?prefix=" + prefix
	case m.Etcd != nil:
		if m.Etcd.Prefix != "" {
			prefix = m.Etcd.Prefix
		}
		flag := "etcd:" + strings.Join(m.Etcd.Endpoints, ",") + "?prefix=" + prefix
		if m.Etcd.TLSSecretRef != nil {
			flag += etcdTLSFiles
		}
		return flag
	}
	return "sqlite:" + dataPath + "/metadata.db"
}
