package specs

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
)

const (
	etcdTLSVolume = "etcd-tls"
	metadataArg   = "--metadata"
)

var (
	// peerURLFlags are the flags with the addresses between members of etcd: plain or TLS.
	peerURLFlags = []string{"--listen-peer-urls", "--initial-advertise-peer-urls", membersFlag}
	// clientURLFlags are the flags with the addresses for clients: of both kinds while clients move to TLS. etcd
	// can serve both on one port.
	clientURLFlags = []string{"--listen-client-urls", "--advertise-client-urls"}
)

// stageOf is the stage of TLS for which the member's pod is created now.
func stageOf(cluster *ramcloudv1.RAMCloudCluster, pod *corev1.Pod, index int32, trust Trust) plan.TLSStage {
	switch pod.Labels[LabelComponent] {
	case ComponentEtcd:
		return plan.PodTLS(TLSStage(cluster), plan.Etcd, trust.SecurePeers[index])
	case ComponentCoordinator:
		return plan.PodTLS(TLSStage(cluster), plan.Coordinator, false)
	}
	return plan.TLSOff
}

// secure turns a pod with plain connections into one for a stage of TLS. Templates have plain connections,
// because a pod must fit the present stage, not the stage at which its template was accepted.
func secure(cluster *ramcloudv1.RAMCloudCluster, pod *corev1.Pod, index int32, stage plan.TLSStage) {
	if stage <= plan.TLSOff {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[AnnotationTLS] = stage.String()
	c := &pod.Spec.Containers[0]
	if pod.Labels[LabelComponent] == ComponentCoordinator {
		changeArgs(c, func(flag, value string) string {
			if flag == metadataArg {
				value += etcdTLSFiles
			}
			return value
		})
		certificateFiles(cluster, &pod.Spec, map[string]string{coordinatorLeaf: "tls"}, coordinatorLeaf)
		return
	}
	changeArgs(c, func(flag, value string) string { return secureURLs(flag, value, stage) })
	c.Args = append(c.Args, etcdTLSArgs()...)
	leaf := memberLeaf(index)
	certificateFiles(cluster, &pod.Spec, map[string]string{leaf: "tls", leaf + "-client": "client"}, leaf, leaf+"-client")
}

func secureURLs(flag, value string, stage plan.TLSStage) string {
	byTLS := strings.ReplaceAll(value, "http://", "https://")
	switch {
	case stage == plan.TLSRequired && (slices.Contains(peerURLFlags, flag) || slices.Contains(clientURLFlags, flag)):
		return byTLS
	case stage == plan.TLSOffered && slices.Contains(clientURLFlags, flag):
		return value + "," + byTLS
	}
	return value
}

// unsecure is the inverse of secure.
func unsecure(spec *corev1.PodSpec) {
	tls := map[string]bool{}
	for _, arg := range etcdTLSArgs() {
		flag, _, _ := strings.Cut(arg, "=")
		tls[flag] = true
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Args = slices.DeleteFunc(c.Args, func(arg string) bool {
			flag, _, _ := strings.Cut(arg, "=")
			return tls[flag]
		})
		changeArgs(c, func(flag, value string) string {
			switch {
			case flag == metadataArg:
				return strings.TrimSuffix(value, etcdTLSFiles)
			case slices.Contains(peerURLFlags, flag):
				return strings.ReplaceAll(value, "https://", "http://")
			case slices.Contains(clientURLFlags, flag):
				return strings.Join(slices.Compact(strings.Split(strings.ReplaceAll(value, "https://", "http://"), ",")), ",")
			}
			return value
		})
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == etcdTLSVolume })
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == etcdTLSVolume })
}

// changeArgs changes, in place, the values of flags.
func changeArgs(c *corev1.Container, value func(flag, value string) string) {
	for i, arg := range c.Args {
		if flag, v, any := strings.Cut(arg, "="); any {
			c.Args[i] = flag + "=" + value(flag, v)
		}
	}
}
