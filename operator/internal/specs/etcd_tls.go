package specs

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/certs"
	"ramcloud.dev/operator/internal/plan"
)

const (
	// EtcdSecretName is the Secret with the certificates of all managed etcds of a namespace, and the only
	// Secret that the operator may read. A right can be limited to names that are known in advance: so the name
	// is fixed, and the entries are named after the clusters.
	EtcdSecretName = "ramcloud-etcd"
	// EtcdPolicyName is the NetworkPolicy that closes all managed etcds of a namespace: one name, for the same reason.
	EtcdPolicyName = "ramcloud-etcd"

	// AnnotationTLS is the stage for which a pod of etcd or of a coordinator was created; none: plain
	// connections.
	AnnotationTLS = "ramcloud.dev/etcd-tls"
	// AnnotationPeerTLS is on the claim of a member of etcd that the others reach by TLS.
	AnnotationPeerTLS = "ramcloud.dev/etcd-peer-tls"
	// AnnotationAuthorities names the authorities that a pod trusts, which it read when it started.
	AnnotationAuthorities = "ramcloud.dev/etcd-authorities"
	// AnnotationCertificateUntil is the end of validity of the certificate that a coordinator read when it
	// started.
	AnnotationCertificateUntil = "ramcloud.dev/etcd-certificate-until"

	coordinatorLeaf = "coordinator"
	operatorLeaf    = "operator"
)

// Trust has the facts about connections to a managed etcd that are not in the cluster's object.
type Trust struct {
	// SecurePeers are the members that others reach by TLS, by their indices.
	SecurePeers map[int32]bool
	// Authorities are those that a pod trusts if it starts now; Until is the end of validity of the
	// coordinators' certificate.
	Authorities string
	Until       time.Time
}

// TLSStage is the recorded stage of the cluster's etcd.
func TLSStage(cluster *ramcloudv1.RAMCloudCluster) plan.TLSStage {
	return plan.ParseTLSStage(cluster.Status.Etcd.TLS)
}

// EtcdCertificates are the certificates that a managed etcd and its clients need. A member's connections to
// others, and of its gateway to itself, use a certificate without names: etcd resolves the names in a
// client's certificate, and name servers know a pod's new address only after some time.
func EtcdCertificates(cluster *ramcloudv1.RAMCloudCluster) []certs.Leaf {
	out := []certs.Leaf{{Name: coordinatorLeaf, CommonName: coordinatorLeaf}, {Name: operatorLeaf, CommonName: operatorLeaf}}
	for index := range WantedEtcd(cluster) {
		name := EtcdName(cluster.Name, index)
		service := name + "." + cluster.Namespace
		out = append(out,
			certs.Leaf{Name: memberLeaf(index), CommonName: certs.Member, Hosts: []string{
				name, service, service + ".svc", Host(cluster, name), "localhost", "127.0.0.1"}},
			certs.Leaf{Name: memberLeaf(index) + "-client", CommonName: certs.Member})
	}
	return out
}

func memberLeaf(index int32) string { return fmt.Sprintf("etcd-%d", index) }

// OperatorLeaf is the certificate with which the operator connects to the etcd; CoordinatorLeaf that of
// coordinators.
func OperatorLeaf() string    { return operatorLeaf }
func CoordinatorLeaf() string { return coordinatorLeaf }

// EtcdSecretKey is the key of a cluster's entry in the Secret. Names of clusters have no dots.
func EtcdSecretKey(cluster, entry string) string { return cluster + "." + entry }

// EtcdSecretEntries are the entries of a cluster, without the cluster's name in the keys.
func EtcdSecretEntries(cluster string, data map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		if entry, ours := strings.CutPrefix(key, cluster+"."); ours {
			out[entry] = value
		}
	}
	return out
}

// EtcdSecret is the cluster's part of the namespace's Secret.
func EtcdSecret(cluster *ramcloudv1.RAMCloudCluster, entries map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: sharedMeta(cluster, EtcdSecretName), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for entry, value := range entries {
		secret.Data[EtcdSecretKey(cluster.Name, entry)] = value
	}
	return secret
}

// sharedMeta is the metadata of an object that all clusters of a namespace share: each cluster owns it, and
// it is deleted with the last one.
func sharedMeta(cluster *ramcloudv1.RAMCloudCluster, name string) metav1.ObjectMeta {
	owner := OwnerReference(cluster)
	owner.Controller, owner.BlockOwnerDeletion = nil, nil
	return metav1.ObjectMeta{Name: name, Namespace: cluster.Namespace, OwnerReferences: []metav1.OwnerReference{owner},
		Labels: map[string]string{LabelName: "ramcloud", LabelComponent: ComponentEtcd, LabelManagedBy: ManagedBy}}
}

// EtcdNetworkPolicy allows connections to the etcds of a namespace only from coordinators, the operator, and
// between members. Probes and metrics are open.
func EtcdNetworkPolicy(cluster *ramcloudv1.RAMCloudCluster, operatorNamespace string) *networkingv1.NetworkPolicy {
	ours := func(component string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			LabelManagedBy: ManagedBy, LabelComponent: component}}}
	}
	rule := func(port int32, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		protocol, number := corev1.ProtocolTCP, intstr.FromInt32(port)
		return networkingv1.NetworkPolicyIngressRule{From: from, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &number}}}
	}
	clients := []networkingv1.NetworkPolicyPeer{ours(ComponentCoordinator)}
	if operatorNamespace != "" {
		clients = append(clients, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			corev1.LabelMetadataName: operatorNamespace}}})
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: sharedMeta(cluster, EtcdPolicyName),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{LabelManagedBy: ManagedBy, LabelComponent: ComponentEtcd}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{rule(EtcdClientPort, clients...), rule(EtcdPeerPort, ours(ComponentEtcd)), rule(EtcdMetricsPort)},
		},
	}
}

// certificateFiles mounts leaves of the cluster's certificates at etcdTLSPath, and the authorities to trust:
// each leaf as FILE.crt and FILE.key. The authorities' keys are not mounted.
func certificateFiles(cluster *ramcloudv1.RAMCloudCluster, spec *corev1.PodSpec, leaves map[string]string, order ...string) {
	mode := int32(0o440)
	items := []corev1.KeyToPath{{Key: EtcdSecretKey(cluster.Name, certs.AuthorityCert), Path: "ca.crt"}}
	for _, leaf := range order {
		for _, end := range []string{".crt", ".key"} {
			items = append(items, corev1.KeyToPath{Key: EtcdSecretKey(cluster.Name, leaf+end), Path: leaves[leaf] + end})
		}
	}
	mount(spec, etcdTLSPath, corev1.Volume{Name: etcdTLSVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: EtcdSecretName, DefaultMode: &mode, Items: items}}})
}

// etcdTLSArgs are the flags with which a member offers or requires TLS.
func etcdTLSArgs() []string {
	file := func(name string) string { return etcdTLSPath + "/" + name }
	return []string{
		"--cert-file=" + file("tls.crt"), "--key-file=" + file("tls.key"),
		"--client-cert-file=" + file("client.crt"), "--client-key-file=" + file("client.key"),
		"--trusted-ca-file=" + file("ca.crt"), "--client-cert-auth",
		"--peer-cert-file=" + file("tls.crt"), "--peer-key-file=" + file("tls.key"),
		"--peer-client-cert-file=" + file("client.crt"), "--peer-client-key-file=" + file("client.key"),
		"--peer-trusted-ca-file=" + file("ca.crt"), "--peer-client-cert-auth",
		"--peer-cert-allowed-cn=" + certs.Member,
		"--tls-min-version=TLS1.2",
	}
}

// noteTrust notes on a pod which certificates it reads when it starts. The note is not part of the template,
// so a renewal is not a difference.
func noteTrust(pod *corev1.Pod, trust Trust) {
	if pod.Annotations[AnnotationTLS] == "" {
		return
	}
	pod.Annotations[AnnotationAuthorities] = trust.Authorities
	if pod.Labels[LabelComponent] == ComponentCoordinator && !trust.Until.IsZero() {
		pod.Annotations[AnnotationCertificateUntil] = trust.Until.UTC().Format(time.RFC3339)
	}
}

// Outdated says why a pod must be restarted without a request: programs read their trusted authorities, and
// coordinators their certificate, only when they start. Empty: no need, or it would read the same again.
func Outdated(pod *corev1.Pod, set *certs.Set, now time.Time) string {
	if pod.Annotations[AnnotationTLS] == "" {
		return ""
	}
	until, err := time.Parse(time.RFC3339, pod.Annotations[AnnotationCertificateUntil])
	if err == nil && !now.Before(until.Add(-certs.Life/6)) && set.Until(coordinatorLeaf).After(until) {
		return "the certificate that it started with ends at " + until.Format(time.RFC3339)
	}
	return set.Outgrown(pod.Annotations[AnnotationAuthorities], now)
}
