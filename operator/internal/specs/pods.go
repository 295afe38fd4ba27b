package specs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

const (
	dataPath = "/var/lib/ramcloud"
	// userID is the user of the image; the volume's group, so that it can write there.
	userID = int64(65532)
)

// CoordinatorPod builds the coordinator's pod. image is used where spec names none.
func CoordinatorPod(cluster *ramcloudv1.RAMCloudCluster, image string, ports NodePorts) *corev1.Pod {
	name := CoordinatorName(cluster.Name)
	args := []string{
		"coordinator",
		"--cluster-name=" + cluster.Namespace + "/" + cluster.Name,
		fmt.Sprintf("--listen=0.0.0.0:%d", CoordinatorPort),
		"--advertise=" + CoordinatorAddress(cluster),
		fmt.Sprintf("--admin-listen=0.0.0.0:%d", CoordinatorAdminPort),
		"--admin-advertise=" + AdminAddress(cluster),
		fmt.Sprintf("--http-listen=0.0.0.0:%d", CoordinatorHTTPPort),
		"--metadata=sqlite:" + dataPath + "/metadata.db",
		"--log-format=json",
	}
	containerPorts := []corev1.ContainerPort{
		{Name: "rpc", ContainerPort: CoordinatorPort, Protocol: corev1.ProtocolTCP},
		{Name: "admin", ContainerPort: CoordinatorAdminPort, Protocol: corev1.ProtocolTCP},
		{Name: "http", ContainerPort: CoordinatorHTTPPort, Protocol: corev1.ProtocolTCP},
	}
	if Exposed(cluster) {
		args = append(args,
			fmt.Sprintf("--listen-outside=0.0.0.0:%d", CoordinatorOutsidePort),
			fmt.Sprintf("--admin-advertise-outside=$(HOST_IP):%d", ports.Admin))
		containerPorts = append(containerPorts,
			corev1.ContainerPort{Name: "outside", ContainerPort: CoordinatorOutsidePort, Protocol: corev1.ProtocolTCP})
	}
	pod := &corev1.Pod{ObjectMeta: meta(cluster, name, ComponentCoordinator)}
	pod.Spec = podSpec(cluster, name, container{
		name: ComponentCoordinator, image: image, args: args, ports: containerPorts,
		resources: coordinatorResources(cluster),
	})
	return finish(cluster, pod, ports)
}

// ServerPod builds the pod of server `index`.
func ServerPod(cluster *ramcloudv1.RAMCloudCluster, index int32, image string, ports NodePorts) *corev1.Pod {
	name := ServerName(cluster.Name, index)
	size := ServerSizing(cluster)
	args := []string{
		"server",
		"--name=" + name,
		"--coordinator=" + CoordinatorAddress(cluster),
		fmt.Sprintf("--listen=0.0.0.0:%d", ServerPort),
		"--advertise=" + hostPort(Host(cluster, name), ServerPort),
		fmt.Sprintf("--http-listen=0.0.0.0:%d", ServerHTTPPort),
		"--dir=" + dataPath,
		"--log-memory=" + sizeFlag(size.Log),
		"--hash-table-memory=" + sizeFlag(size.HashTable),
		"--backup-size=" + sizeFlag(size.Backup),
		fmt.Sprintf("--replicas=%d", ReplicationFactor(cluster)),
		"--log-format=json",
	}
	switch cluster.Spec.FailureDomain {
	case ramcloudv1.FailureDomainNode:
		args = append(args, "--failure-domain=$(NODE_NAME)")
	case ramcloudv1.FailureDomainZone:
		args = append(args, "--failure-domain=$(ZONE)")
	}
	if Exposed(cluster) {
		args = append(args, fmt.Sprintf("--advertise-outside=$(HOST_IP):%d", ports.RPC))
	}
	template := cluster.Spec.Servers.Template
	pod := &corev1.Pod{ObjectMeta: serverMeta(cluster, name, index)}
	pod.Annotations = maps.Clone(template.Metadata.Annotations)
	for key, value := range template.Metadata.Labels {
		if _, ours := pod.Labels[key]; !ours {
			pod.Labels[key] = value
		}
	}
	pod.Spec = podSpec(cluster, name, container{
		name: ComponentServer, image: image, args: args, resources: serverResources(cluster),
		ports: []corev1.ContainerPort{
			{Name: "rpc", ContainerPort: ServerPort, Protocol: corev1.ProtocolTCP},
			{Name: "http", ContainerPort: ServerHTTPPort, Protocol: corev1.ProtocolTCP},
		},
	})
	pod.Spec.NodeSelector = template.NodeSelector
	pod.Spec.Affinity = template.Affinity
	pod.Spec.Tolerations = template.Tolerations
	pod.Spec.TopologySpreadConstraints = topologySpread(cluster)
	return finish(cluster, pod, ports)
}

// Exposed says whether clients outside Kubernetes can connect.
func Exposed(cluster *ramcloudv1.RAMCloudCluster) bool {
	return cluster.Spec.Expose.Type == ramcloudv1.ExposeNodePort
}

type container struct {
	name, image string
	args        []string
	ports       []corev1.ContainerPort
	resources   corev1.ResourceRequirements
}

// podSpec is what coordinator and servers have in common. It fits the PodSecurity level "restricted".
func podSpec(cluster *ramcloudv1.RAMCloudCluster, name string, c container) corev1.PodSpec {
	no, yes, user, grace := false, true, userID, int64(30)
	onRootMismatch := corev1.FSGroupChangeOnRootMismatch
	if image := cluster.Spec.Images.Node; image != "" {
		c.image = image
	}
	return corev1.PodSpec{
		Hostname:                      name,
		Subdomain:                     cluster.Name,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		ImagePullSecrets:              cluster.Spec.Images.PullSecrets,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			FSGroupChangePolicy: &onRootMismatch,
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: c.name, Image: c.image, ImagePullPolicy: pullPolicy(cluster),
			Command: []string{"/usr/bin/ramcloudd"}, Args: c.args, Env: environment(cluster),
			Ports: c.ports, Resources: c.resources,
			VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: dataPath},
				{Name: "tmp", MountPath: "/tmp"},
			},
			// A pod that starts may have a volume to read first; a server that is busy is not dead.
			StartupProbe:   probe("/healthz", 2, 90),
			ReadinessProbe: probe("/readyz", 5, 3),
			LivenessProbe:  probe("/healthz", 10, 12),
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: VolumeClaimName(name)},
			}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(16*mib, resource.BinarySI)},
			}},
		},
	}
}

func pullPolicy(cluster *ramcloudv1.RAMCloudCluster) corev1.PullPolicy {
	if cluster.Spec.Images.PullPolicy != "" {
		return cluster.Spec.Images.PullPolicy
	}
	return corev1.PullIfNotPresent
}

func environment(cluster *ramcloudv1.RAMCloudCluster) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
		}}
	}
	env := []corev1.EnvVar{field("NODE_NAME", "spec.nodeName")}
	if Exposed(cluster) {
		env = append(env, field("HOST_IP", "status.hostIP"))
	}
	if cluster.Spec.FailureDomain == ramcloudv1.FailureDomainZone {
		env = append(env, field("ZONE", "metadata.labels['"+corev1.LabelTopologyZone+"']"))
	}
	return env
}

func probe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: periodSeconds, TimeoutSeconds: 5, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

func topologySpread(cluster *ramcloudv1.RAMCloudCluster) []corev1.TopologySpreadConstraint {
	selector := &metav1.LabelSelector{MatchLabels: ServerSelector(cluster.Name)}
	given := cluster.Spec.Servers.Template.TopologySpread
	if len(given) == 0 {
		return []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector,
		}}
	}
	out := make([]corev1.TopologySpreadConstraint, len(given))
	for i := range given {
		given[i].DeepCopyInto(&out[i])
		if out[i].LabelSelector == nil {
			out[i].LabelSelector = selector
		}
	}
	return out
}

// finish notes on the pod what it was made from.
func finish(cluster *ramcloudv1.RAMCloudCluster, pod *corev1.Pod, ports NodePorts) *corev1.Pod {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if Exposed(cluster) {
		pod.Annotations[AnnotationNodePorts] = ports.String()
	}
	text, err := json.Marshal(struct {
		Labels, Annotations map[string]string
		Spec                corev1.PodSpec
	}{pod.Labels, pod.Annotations, pod.Spec})
	if err != nil {
		panic(fmt.Sprintf("a pod of our own making cannot be encoded: %v", err))
	}
	sum := sha256.Sum256(text)
	pod.Annotations[AnnotationTemplate] = hex.EncodeToString(sum[:8])
	return pod
}
