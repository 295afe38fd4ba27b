package specs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
)

// Placeholders in a template for values that differ between members.
const (
	placeName         = "${ramcloud:name}"
	placeIndex        = "${ramcloud:index}"
	placeOutside      = "${ramcloud:outside}"
	placeOutsideAdmin = "${ramcloud:outside-admin}"
)

// anyIndex is the index of the pod from which a template is made: no member has it, so it cannot be confused
// with another number.
const anyIndex = int32(1<<31 - 2)

// ownIndex is the label with a member's index.
func ownIndex(component string) string {
	if component == ComponentServer {
		return LabelServer
	}
	return LabelMember
}

// MemberName is the name of a member's pod.
func MemberName(cluster, component string, index int32) string {
	switch component {
	case ComponentEtcd:
		return EtcdName(cluster, index)
	case ComponentCoordinator:
		return CoordinatorName(cluster, index)
	}
	return ServerName(cluster, index)
}

// Template is this operator's template for the members of a component, by the spec.
func Template(cluster *ramcloudv1.RAMCloudCluster, component string, defaults Defaults) corev1.PodTemplateSpec {
	switch component {
	case ComponentEtcd:
		return TemplateOf(EtcdPod(cluster, anyIndex, defaults))
	case ComponentCoordinator:
		return TemplateOf(CoordinatorPod(cluster, anyIndex, defaults, NodePorts{}))
	}
	return TemplateOf(ServerPod(cluster, anyIndex, defaults, NodePorts{}))
}

// sharedFlags have names of several members, and are the same for all members of a component.
var sharedFlags = []string{"--initial-cluster", "--coordinator", "--metadata", "--cluster-name", "--initial-cluster-token"}

// TemplateOf is the template from which the pod was created: without the pod's own values, its stage of TLS,
// and additions of the API server and Kubernetes. It also works for pods of operators without revisions.
func TemplateOf(pod *corev1.Pod) corev1.PodTemplateSpec {
	component := pod.Labels[LabelComponent]
	out := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(pod.Labels)}}
	if pod.UID != "" { // Kubernetes copies these labels from the node
		maps.DeleteFunc(out.Labels, func(key, _ string) bool { return strings.HasPrefix(key, "topology.kubernetes.io/") })
	}
	out.Labels[ownIndex(component)] = placeIndex
	for key, value := range pod.Annotations {
		if !ownAnnotation(key) && (pod.UID == "" || !othersAnnotation(key)) {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	pod.Spec.DeepCopyInto(&out.Spec)
	if component == ComponentEtcd || pod.Annotations[AnnotationTLS] != "" { // a coordinator of an external etcd keeps its files
		unsecure(&out.Spec)
	}
	withoutDefaults(&out.Spec, component)
	generalize(&out.Spec, pod.Name)
	return out
}

// ownAnnotation: the annotation belongs to one pod, not to its template.
func ownAnnotation(key string) bool {
	return key == AnnotationNodePorts || key == AnnotationTLS || slices.Contains(notInTemplate, key)
}

// othersAnnotation: the annotation was added by network plugins or admission.
func othersAnnotation(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return key == "kubernetes.io/limit-ranger" ||
		slices.Contains([]string{"cni.projectcalico.org", "k8s.ovn.org", "k8s.v1.cni.cncf.io", "cni.cilium.io"}, domain)
}

// generalize replaces the pod's own name and addresses by placeholders.
func generalize(spec *corev1.PodSpec, name string) {
	own := func(text string) string { return strings.Replace(text, name, placeName, 1) }
	changeOwn(spec, own, func(arg string) string {
		switch flag, _, _ := strings.Cut(arg, "="); {
		case flag == "--advertise-outside":
			return flag + "=" + placeOutside
		case flag == "--admin-advertise-outside":
			return flag + "=" + placeOutsideAdmin
		case flag == stateFlag:
			return stateFlag + "=new"
		case slices.Contains(sharedFlags, flag):
			return arg
		}
		return own(arg)
	})
}

// changeOwn changes, in place, all texts that may contain a member's own values.
func changeOwn(spec *corev1.PodSpec, text, arg func(string) string) {
	spec.Hostname = text(spec.Hostname)
	for i := range spec.Volumes {
		if claim := spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			if pod, generation, ours := ParseVolumeClaimName(claim.ClaimName); ours && generation > 1 {
				claim.ClaimName = VolumeClaimName(pod, 1) // its generation is not part of a template
			}
			claim.ClaimName = text(claim.ClaimName)
		}
		if secret := spec.Volumes[i].Secret; secret != nil {
			secret.SecretName = text(secret.SecretName)
		}
	}
	for c := range spec.Containers {
		args := spec.Containers[c].Args
		for i := range args {
			args[i] = arg(args[i])
		}
	}
}

// withoutDefaults removes the defaults that the API server and admission add to a pod.
func withoutDefaults(spec *corev1.PodSpec, component string) {
	spec.NodeName, spec.DeprecatedServiceAccount = "", ""
	spec.Priority, spec.PreemptionPolicy = nil, nil
	without := func(field *string, value string) {
		if *field == value {
			*field = ""
		}
	}
	without(&spec.ServiceAccountName, "default")
	without(&spec.SchedulerName, corev1.DefaultSchedulerName)
	without((*string)(&spec.DNSPolicy), string(corev1.DNSClusterFirst))
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		// Kubernetes adds these if a pod has no tolerations of its own for these taints.
		return (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) && t.TolerationSeconds != nil && *t.TolerationSeconds == 300
	})
	// Containers injected by others are added again when a pod is created.
	spec.InitContainers = nil
	spec.Containers = slices.DeleteFunc(spec.Containers, func(c corev1.Container) bool { return c.Name != component })
	for i := range spec.Containers {
		c := &spec.Containers[i]
		without(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		without((*string)(&c.TerminationMessagePolicy), string(corev1.TerminationMessageReadFile))
	}
	for i := range spec.Volumes {
		if secret := spec.Volumes[i].Secret; secret != nil && secret.DefaultMode != nil && *secret.DefaultMode == corev1.SecretVolumeSourceDefaultMode {
			secret.DefaultMode = nil
		}
	}
}

// Instantiate creates the pod of a member from a template, for the present stage of TLS.
func Instantiate(cluster *ramcloudv1.RAMCloudCluster, template corev1.PodTemplateSpec, index int32, ports NodePorts, trust Trust) *corev1.Pod {
	return instantiate(cluster, template, index, ports, trust, func(pod *corev1.Pod) plan.TLSStage { return stageOf(cluster, pod, index, trust) })
}

// ClaimOf is the name of the pod's claim; empty: it has none.
func ClaimOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && pod.Spec.Volumes[i].Name == dataVolume {
			return claim.ClaimName
		}
	}
	return ""
}

// UseClaim sets the claim of a new pod to this generation. The generation is not part of the template or its
// hash.
func UseClaim(pod *corev1.Pod, generation int32) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && pod.Spec.Volumes[i].Name == dataVolume {
			claim.ClaimName = VolumeClaimName(pod.Name, generation)
		}
	}
}

// AsMade is a running pod in the form that an operator with templates would have created, for the pod's
// stage.
func AsMade(cluster *ramcloudv1.RAMCloudCluster, live *corev1.Pod, index int32) *corev1.Pod {
	ports := ParseNodePorts(live.Annotations[AnnotationNodePorts])
	return instantiate(cluster, TemplateOf(live), index, ports, Trust{}, func(*corev1.Pod) plan.TLSStage {
		return plan.ParseTLSStage(live.Annotations[AnnotationTLS])
	})
}

func instantiate(cluster *ramcloudv1.RAMCloudCluster, template corev1.PodTemplateSpec, index int32, ports NodePorts, trust Trust, stage func(*corev1.Pod) plan.TLSStage) *corev1.Pod {
	component := template.Labels[LabelComponent]
	name := MemberName(cluster.Name, component, index)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: cluster.Namespace, Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
		OwnerReferences: []metav1.OwnerReference{OwnerReference(cluster)},
	}}
	pod.Labels[ownIndex(component)] = strconv.Itoa(int(index))
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	template.Spec.DeepCopyInto(&pod.Spec)
	if specialize(&pod.Spec, name, ports) {
		pod.Annotations[AnnotationNodePorts] = ports.String()
	}
	secure(cluster, pod, index, stage(pod))
	pod.Annotations[AnnotationTemplate] = templateHash(pod)
	// None of this is part of the template: a request alone or a renewed certificate is not a difference, and a
	// member of etcd with data ignores the initial members.
	if request := cluster.Spec.Update.RestartRequest; request != "" {
		pod.Annotations[AnnotationRestart] = request
	}
	noteTrust(pod, trust)
	if component == ComponentEtcd {
		notTemplate(cluster, pod.Spec.Containers[0].Args, trust)
	}
	return pod
}

// specialize replaces placeholders by a member's own name and addresses, and says whether it has an outside
// address.
func specialize(spec *corev1.PodSpec, name string, ports NodePorts) (outside bool) {
	ipv6 := onIPv6(spec)
	own := strings.NewReplacer(placeName, name, placeOutside, outsideFlag(ports, ports.RPC, ipv6),
		placeOutsideAdmin, outsideFlag(ports, ports.Admin, ipv6)).Replace
	changeOwn(spec, own, func(arg string) string {
		outside = outside || strings.Contains(arg, placeOutside)
		return own(arg)
	})
	return outside
}

// Image is the image of a template's program.
func Image(template corev1.PodTemplateSpec) string {
	if len(template.Spec.Containers) == 0 {
		return ""
	}
	return template.Spec.Containers[0].Image
}

// checkTemplate says why pods cannot be made from a template; nil when they can.
func checkTemplate(template corev1.PodTemplateSpec) error {
	if len(template.Spec.Containers) == 0 || template.Labels[LabelComponent] == "" {
		return fmt.Errorf("it has no container or no label %s", LabelComponent)
	}
	return nil
}
