package specs

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/network"
)

// ServerPod builds the pod of server `index`.
func ServerPod(cluster *ramcloudv1.RAMCloudCluster, index int32, defaults Defaults, ports NodePorts) *corev1.Pod {
	name := ServerName(cluster.Name, index)
	template := cluster.Spec.Servers.Template
	pod := &corev1.Pod{ObjectMeta: serverMeta(cluster, name, index)}
	pod.Annotations = maps.Clone(template.Metadata.Annotations)
	for key, value := range template.Metadata.Labels {
		if _, ours := pod.Labels[key]; !ours {
			pod.Labels[key] = value
		}
	}
	c := container{
		name: ComponentServer, image: node(cluster, defaults.Image), priorityClass: defaults.PriorityClass,
		args: serverArguments(cluster, name, ports, defaults), env: append(environment(cluster), ownAddress()),
		resources: serverResources(cluster), dataPath: dataPath,
		ports: []corev1.ContainerPort{
			{Name: "rpc", ContainerPort: ServerPort, Protocol: corev1.ProtocolTCP},
			{Name: "http", ContainerPort: ServerHTTPPort, Protocol: corev1.ProtocolTCP},
		},
	}
	if OnDevices(cluster) {
		c.dataPath, c.device = "", devicePath
	}
	pod.Spec = podSpec(cluster, name, daemon(c))
	pod.Spec.NodeSelector = template.NodeSelector
	pod.Spec.Affinity = template.Affinity
	// Ours come first, because of several tolerations of one taint Kubernetes uses the first.
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, template.Tolerations...)
	pod.Spec.TopologySpreadConstraints = topologySpread(cluster)
	if template.PriorityClassName != "" {
		pod.Spec.PriorityClassName = template.PriorityClassName
	}
	// No pods are created from a refused spec (internal/controller), so the provider exists.
	if provider, err := network.For(cluster.Spec.Network); err == nil {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, provider.Arguments(cluster.Spec.Network)...)
		provider.Prepare(cluster.Spec.Network, &pod.ObjectMeta, &pod.Spec)
	}
	return finish(cluster, pod, ports)
}

func serverArguments(cluster *ramcloudv1.RAMCloudCluster, name string, ports NodePorts, defaults Defaults) []string {
	size, directory := ServerSizing(cluster), dataPath
	if OnDevices(cluster) {
		directory = devicePath
	}
	args := []string{
		"server",
		"--name=" + name,
		"--coordinator=" + CoordinatorAddress(cluster),
		"--listen=" + hostPort(defaults.anyAddress(), ServerPort),
		"--advertise=" + hostPort(Host(cluster, name), ServerPort),
		"--http-listen=" + hostPort(defaults.anyAddress(), ServerHTTPPort),
		"--dir=" + directory,
		logFlag + "=" + sizeFlag(size.Log),
		hashTableFlag + "=" + sizeFlag(size.HashTable),
		"--backup-size=" + sizeFlag(size.Backup),
		fmt.Sprintf("--replicas=%d", ReplicationFactor(cluster)),
		"--log-format=json",
	}
	if pages := HugePages(cluster); pages != "" {
		args = append(args, "--huge-pages="+string(pages))
	}
	if cpu := cluster.Spec.Servers.CPU; cpu != nil && cpu.Reactors > 1 {
		args = append(args, fmt.Sprintf("--reactors=%d", cpu.Reactors))
	}
	args = append(args, cleaningArguments(cluster)...)
	if most := cluster.Spec.Servers.Recovery.Bandwidth; most != nil {
		args = append(args, "--recovery-bandwidth="+sizeFlag(most.Value()))
	}
	if least := cluster.Spec.MinReplicas; least != nil {
		args = append(args, fmt.Sprintf("--min-replicas=%d", *least))
	}
	if cluster.Spec.Durability == ramcloudv1.DurabilitySynced {
		args = append(args, "--durability=synced")
	}
	switch cluster.Spec.TopologyKey {
	case "": // default: the server's name
	case corev1.LabelHostname:
		args = append(args, "--failure-domain=$(NODE_NAME)")
	case corev1.LabelTopologyZone:
		args = append(args, "--failure-domain=$(ZONE)")
	default:
		args = append(args, "--failure-domain=$(FAILURE_DOMAIN)")
	}
	if Exposed(cluster) {
		args = append(args, "--advertise-outside="+outsideFlag(ports, ports.RPC, defaults.IPv6))
	}
	return args
}

// cleaningFlags are the values of --cleaning. A mode is added to the schema and to this list together, once
// the servers' program supports it, because a server exits if it gets an unknown value.
var cleaningFlags = map[ramcloudv1.CleaningMode]string{
	ramcloudv1.CleaningOff:      "off",
	ramcloudv1.CleaningOneLevel: "one-level",
	ramcloudv1.CleaningTwoLevel: "two-level",
}

// cleaningArguments are a server's flags for cleaning. Fields that the spec does not set are left to the
// server's defaults, so that a later version may have better ones.
func cleaningArguments(cluster *ramcloudv1.RAMCloudCluster) (args []string) {
	if flag := cleaningFlags[cluster.Spec.Servers.Cleaning.Mode]; flag != "" {
		args = append(args, "--cleaning="+flag)
	}
	if cpu := cluster.Spec.Servers.CPU; cpu != nil && cpu.Cleaners != nil {
		args = append(args, fmt.Sprintf("--cleaner-threads=%d", *cpu.Cleaners))
	}
	return args
}

// ownAddress makes a server advertise its pod's address instead of its name: name servers know a new pod's
// address only after some time, and servers and clients use the coordinator's list. It is an environment
// variable, because a server of the previous version does not know the flag; it advertises its name.
func ownAddress() corev1.EnvVar {
	return corev1.EnvVar{Name: "RAMCLOUD_ADVERTISE_HOST", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
	}}
}

func topologySpread(cluster *ramcloudv1.RAMCloudCluster) []corev1.TopologySpreadConstraint {
	given := cluster.Spec.Servers.Template.TopologySpread
	if len(given) == 0 {
		return spreadOverHosts(ServerSelector(cluster.Name))
	}
	out := make([]corev1.TopologySpreadConstraint, len(given))
	for i := range given {
		given[i].DeepCopyInto(&out[i])
		if out[i].LabelSelector == nil {
			out[i].LabelSelector = &metav1.LabelSelector{MatchLabels: ServerSelector(cluster.Name)}
		}
	}
	return out
}
