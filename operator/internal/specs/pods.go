package specs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

const (
	dataPath = "/var/lib/ramcloud"
	// dataVolume is the name of the member's own volume in its pod.
	dataVolume = "data"
	// devicePath is the path of a server's volume if that is a raw device.
	devicePath = "/dev/ramcloud-backup"
	// userID is the user of the image, and the volume's group, so that the user can write there.
	userID = int64(65532)
)

// Exposed says whether clients outside Kubernetes can connect.
func Exposed(cluster *ramcloudv1.RAMCloudCluster) bool {
	return cluster.Spec.Expose.Type == ramcloudv1.ExposeNodePort || Balanced(cluster)
}

// Balanced says whether they connect by a load balancer for each pod.
func Balanced(cluster *ramcloudv1.RAMCloudCluster) bool {
	return cluster.Spec.Expose.Type == ramcloudv1.ExposeLoadBalancer
}

// outsideFlag is the address that a pod advertises to clients outside: the load balancer's, or that of the
// node that it runs on.
func outsideFlag(ports NodePorts, port int32, ipv6 bool) string {
	switch {
	case ports.Host != "":
		return net.JoinHostPort(ports.Host, strconv.Itoa(int(port)))
	case ipv6:
		return fmt.Sprintf("[$(HOST_IP)]:%d", port)
	}
	return fmt.Sprintf("$(HOST_IP):%d", port)
}

// The addresses on which pods listen. With IPv6 addresses the kernel accepts IPv4 there as well; but not all
// kernels have IPv6.
const (
	anyIPv4 = "0.0.0.0"
	anyIPv6 = "[::]"
)

// anyAddress is the address on which pods listen.
func (d Defaults) anyAddress() string {
	if d.IPv6 {
		return anyIPv6
	}
	return anyIPv4
}

// onIPv6 says whether a pod or template was created for pods with IPv6 addresses.
func onIPv6(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--listen="+anyIPv6) })
	})
}

// Defaults come from the operator's installation; they apply to fields that a cluster does not set.
type Defaults struct {
	// Image of the pod's program.
	Image string
	// PriorityClass of all pods; empty: none.
	PriorityClass string
	// IPv6: the addresses of pods are IPv6, alone or first.
	IPv6 bool
	// Trust has the facts for a pod's connections to a managed etcd.
	Trust Trust
}

// container has the parts in which the kinds of pods differ.
type container struct {
	name, image   string
	priorityClass string
	command       string
	args          []string
	env           []corev1.EnvVar
	ports         []corev1.ContainerPort
	resources     corev1.ResourceRequirements
	// dataPath is the mount path of the pod's volume; empty: it has none.
	dataPath string
	// device is the path of the volume as a raw device, instead.
	device                   string
	startup, ready, liveness *corev1.Probe
}

// stayTolerations keep a pod bound to a node that does not answer. Kubernetes would delete it after five
// minutes, ignoring any budget, and the server's data in memory would be lost. The store itself decides by
// its probes which server is dead.
func stayTolerations() []corev1.Toleration {
	return []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
}

// podSpec is the common part of all pods. It complies with the PodSecurity level "restricted".
func podSpec(cluster *ramcloudv1.RAMCloudCluster, name string, c container) corev1.PodSpec {
	no, yes, user, grace := false, true, userID, int64(30)
	onRootMismatch := corev1.FSGroupChangeOnRootMismatch
	spec := corev1.PodSpec{
		Hostname:                      name,
		Subdomain:                     cluster.Name,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		ImagePullSecrets:              cluster.Spec.Images.PullSecrets,
		Tolerations:                   stayTolerations(),
		PriorityClassName:             c.priorityClass,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			FSGroupChangePolicy: &onRootMismatch,
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: c.name, Image: c.image, ImagePullPolicy: pullPolicy(cluster),
			Command: []string{c.command}, Args: c.args, Env: c.env,
			Ports: c.ports, Resources: c.resources,
			VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			StartupProbe: c.startup, ReadinessProbe: c.ready, LivenessProbe: c.liveness,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(16*mib, resource.BinarySI)},
		}}},
	}
	data := corev1.Volume{Name: dataVolume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: VolumeClaimName(name, 1)},
	}}
	switch {
	case c.device != "":
		spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: data.Name, DevicePath: c.device}}
		spec.Volumes = append([]corev1.Volume{data}, spec.Volumes...)
	case c.dataPath != "":
		mount(&spec, c.dataPath, data)
	}
	return spec
}

// OnDevices says whether the servers' volumes are raw devices.
func OnDevices(cluster *ramcloudv1.RAMCloudCluster) bool {
	return cluster.Spec.Servers.BackupStorage.VolumeMode == ramcloudv1.VolumeModeBlock
}

// mount adds a volume as the first mount, before /tmp.
func mount(spec *corev1.PodSpec, path string, volume corev1.Volume) {
	c := &spec.Containers[0]
	readOnly := volume.Secret != nil
	c.VolumeMounts = append([]corev1.VolumeMount{{Name: volume.Name, MountPath: path, ReadOnly: readOnly}}, c.VolumeMounts...)
	spec.Volumes = append([]corev1.Volume{volume}, spec.Volumes...)
}

// node is the image of coordinators and servers.
func node(cluster *ramcloudv1.RAMCloudCluster, image string) string {
	if own := cluster.Spec.Images.Node; own != "" {
		return own
	}
	return image
}

// daemon sets the common part of coordinators and servers. The probes are patient: a starting pod may have to
// read its volume first, and a busy server is not dead.
func daemon(c container) container {
	c.command = "/usr/bin/ramcloudd"
	c.startup, c.ready, c.liveness = probe("/healthz", 2, 90), probe("/readyz", 5, 3), probe("/healthz", 10, 12)
	return c
}

// spreadOverHosts keeps pods of one component on different nodes where possible.
func spreadOverHosts(selector map[string]string) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: selector},
	}}
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
	switch key := cluster.Spec.TopologyKey; key {
	case "", corev1.LabelHostname: // not a label of the pod
	case corev1.LabelTopologyZone:
		env = append(env, field("ZONE", "metadata.labels['"+key+"']"))
	default:
		env = append(env, field("FAILURE_DOMAIN", "metadata.labels['"+key+"']"))
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

// finish notes the template on the pod.
func finish(cluster *ramcloudv1.RAMCloudCluster, pod *corev1.Pod, ports NodePorts) *corev1.Pod {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if Exposed(cluster) && pod.Labels[LabelComponent] != ComponentEtcd {
		pod.Annotations[AnnotationNodePorts] = ports.String()
	}
	pod.Annotations[AnnotationTemplate] = templateHash(pod)
	// Not part of the template, so a request alone is not a difference.
	if request := cluster.Spec.Update.RestartRequest; request != "" {
		pod.Annotations[AnnotationRestart] = request
	}
	return pod
}

// templateHash is the value of AnnotationTemplate for a pod that is otherwise complete.
func templateHash(pod *corev1.Pod) string {
	text, err := json.Marshal(struct {
		Labels, Annotations map[string]string
		Spec                corev1.PodSpec
	}{pod.Labels, pod.Annotations, pod.Spec})
	if err != nil {
		panic(fmt.Sprintf("a pod of our own making cannot be encoded: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
