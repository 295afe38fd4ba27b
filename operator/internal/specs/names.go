// Package specs builds the Kubernetes objects of a cluster: pure functions from a RAMCloudCluster, and a few
// other facts (the default image, allocated node ports), to complete objects.
package specs

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// Ports of the pods.
const (
	CoordinatorPort        = 11100
	CoordinatorAdminPort   = 11101
	CoordinatorHTTPPort    = 11102
	CoordinatorOutsidePort = 11103
	ServerPort             = 11200
	ServerHTTPPort         = 11202
	EtcdClientPort         = 2379
	EtcdPeerPort           = 2380
	EtcdMetricsPort        = 2381
)

// Labels of every object that belongs to a cluster.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelCluster   = "ramcloud.dev/cluster"
	LabelServer    = "ramcloud.dev/server" // the server's index
	LabelMember    = "ramcloud.dev/member" // the index of a coordinator or a member of etcd
	// LabelRevisionState is the state of a ControllerRevision.
	LabelRevisionState = "ramcloud.dev/revision-state"

	ComponentCoordinator = "coordinator"
	ComponentServer      = "server"
	ComponentEtcd        = "etcd"
	ManagedBy            = "ramcloud-operator"
)

// FinalizerVolume keeps a server's volume claim until the coordinator has released it (the release-token rule).
const FinalizerVolume = "ramcloud.dev/volume-in-use"

// Annotations.
const (
	// AnnotationLetGo is the time (RFC 3339) when the finalizer was removed from a claim for an uninstall: the
	// operator that was still running then does not add it again.
	AnnotationLetGo = "ramcloud.dev/let-go"
	// AnnotationEnlisted is on a server's claim: the cluster's UUID and the id under which the server last enlisted with the
	// volume, "<uuid>/<id>". Empty: it has not yet.
	AnnotationEnlisted = "ramcloud.dev/enlisted"
	// AnnotationRetired is on a server's claim that was replaced by another: no pod gets it again.
	AnnotationRetired = "ramcloud.dev/retired"
	// AnnotationTemplate is the hash of a pod's template; a difference is reported, but does not cause any
	// action.
	AnnotationTemplate = "ramcloud.dev/template-hash"
	// AnnotationNodePorts keeps the ports (and the load balancer) that a pod advertises, so that a re-created
	// Service gets the same node ports.
	AnnotationNodePorts = "ramcloud.dev/node-ports"
	// AnnotationRestart is the spec.update.restartRequest in force when the pod was created, or when a revision
	// was accepted.
	AnnotationRestart = "ramcloud.dev/restart-request"
	// AnnotationRolls is on a revision of servers: they are restarted for its request. Earlier operators, which
	// did not restart servers, did not write it.
	AnnotationRolls = "ramcloud.dev/restarts-servers"
	// AnnotationRevision names the ControllerRevision from which a pod was created.
	AnnotationRevision = "ramcloud.dev/revision"
)

// CoordinatorName is the name of coordinator `index`'s pod.
func CoordinatorName(cluster string, index int32) string {
	return fmt.Sprintf("%s-coordinator-%d", cluster, index)
}

// EtcdName is the name of etcd member `index`'s pod.
func EtcdName(cluster string, index int32) string { return fmt.Sprintf("%s-etcd-%d", cluster, index) }

// ServerName is the name of server `index`: of its pod and its RAMCloudServer.
func ServerName(cluster string, index int32) string {
	return fmt.Sprintf("%s-server-%d", cluster, index)
}

// VolumeClaimName is the name of a pod's volume claim. The first is of generation 1; a claim that replaces a
// lost one has the next generation and another name, because the lost one may have to be kept.
func VolumeClaimName(pod string, generation int32) string {
	if generation <= 1 {
		return claimPrefix + pod
	}
	return fmt.Sprintf("%s%s-g%d", claimPrefix, pod, generation)
}

const claimPrefix = "data-"

// ParseVolumeClaimName is the inverse: the pod and generation of a claim with this name. A pod's name ends
// with a number, so no pod's name can look like the suffix of a later claim.
func ParseVolumeClaimName(claim string) (pod string, generation int32, ok bool) {
	pod, ok = strings.CutPrefix(claim, claimPrefix)
	if at := strings.LastIndex(pod, "-g"); ok && at > 0 {
		if n, numbered := parseIndex(pod[at+2:]); numbered && n > 1 && strconv.Itoa(int(n)) == pod[at+2:] {
			return pod[:at], n, true
		}
	}
	return pod, 1, ok
}

// OutsideServiceName is the name of the Service (NodePort or LoadBalancer) that makes a pod reachable from
// outside.
func OutsideServiceName(pod string) string { return pod + "-outside" }

// ConnectionName is the name of the ConfigMap that says how to connect.
func ConnectionName(cluster string) string { return cluster + "-connection" }

// RecoveryName is the name of the record of a recovery.
func RecoveryName(cluster, id string) string { return cluster + "-" + id }

// defaultRecoveryHistory is the CRD's default of spec.recoveryHistoryLimit, for objects that are older than
// the field.
const defaultRecoveryHistory = 20

// DisruptionBudgetName is the name of the servers' PodDisruptionBudget.
func DisruptionBudgetName(cluster string) string { return cluster + "-servers" }

// EtcdBudgetName is the name of etcd's PodDisruptionBudget.
func EtcdBudgetName(cluster string) string { return cluster + "-etcd" }

// CoordinatorBudgetName is the name of the coordinators' PodDisruptionBudget.
func CoordinatorBudgetName(cluster string) string { return cluster + "-coordinators" }

// Host is the stable name of a pod inside Kubernetes.
func Host(cluster *ramcloudv1.RAMCloudCluster, pod string) string {
	return fmt.Sprintf("%s.%s.%s.svc", pod, cluster.Name, cluster.Namespace)
}

// CoordinatorAddress is the coordinators' address for clients inside Kubernetes: host:port[,host:port].
func CoordinatorAddress(cluster *ramcloudv1.RAMCloudCluster) string {
	return coordinatorAddresses(cluster, CoordinatorPort)
}

// AdminAddress is the address of the coordinators' admin API inside Kubernetes: host:port[,host:port].
func AdminAddress(cluster *ramcloudv1.RAMCloudCluster) string {
	return coordinatorAddresses(cluster, CoordinatorAdminPort)
}

func coordinatorAddresses(cluster *ramcloudv1.RAMCloudCluster, port int32) string {
	var all []string
	for index := range WantedCoordinators(cluster) {
		all = append(all, hostPort(Host(cluster, CoordinatorName(cluster.Name, index)), port))
	}
	return strings.Join(all, ",")
}

func hostPort(host string, port int32) string { return host + ":" + strconv.Itoa(int(port)) }

// Labels are the labels of an object of the cluster; component may be empty.
func Labels(cluster, component string) map[string]string {
	labels := map[string]string{
		LabelName: "ramcloud", LabelInstance: cluster, LabelManagedBy: ManagedBy, LabelCluster: cluster,
	}
	if component != "" {
		labels[LabelComponent] = component
	}
	return labels
}

// ServerSelector selects the servers' pods of a cluster.
func ServerSelector(cluster string) map[string]string {
	return map[string]string{LabelCluster: cluster, LabelComponent: ComponentServer}
}

// ServerSelectorText is ServerSelector as text for the scale subresource.
func ServerSelectorText(cluster string) string {
	return fmt.Sprintf("%s=%s,%s=%s", LabelComponent, ComponentServer, LabelCluster, cluster)
}

// ServerIndex reads the server's index from an object's labels.
func ServerIndex(labels map[string]string) (int32, bool) {
	if labels[LabelComponent] != ComponentServer {
		return 0, false
	}
	return parseIndex(labels[LabelServer])
}

// MemberIndex reads the index of a coordinator or etcd member from an object's labels.
func MemberIndex(labels map[string]string, component string) (int32, bool) {
	if labels[LabelComponent] != component {
		return 0, false
	}
	return parseIndex(labels[LabelMember])
}

func parseIndex(text string) (int32, bool) {
	index, err := strconv.ParseInt(text, 10, 32)
	if err != nil || index < 0 {
		return 0, false
	}
	return int32(index), true
}

const clusterKind = "RAMCloudCluster"

// OwnerReference makes the cluster the controller of an object.
func OwnerReference(cluster *ramcloudv1.RAMCloudCluster) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: ramcloudv1.GroupVersion.String(), Kind: clusterKind,
		Name: cluster.Name, UID: cluster.UID, Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// OfFormer says whether the object belongs to a former cluster of the same name, which was deleted while
// Kubernetes has not deleted the object yet. A kept volume belongs to no cluster, so it is not included.
func OfFormer(cluster *ramcloudv1.RAMCloudCluster, object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == clusterKind && owner.Name == cluster.Name && owner.UID != cluster.UID
}

func meta(cluster *ramcloudv1.RAMCloudCluster, name, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: cluster.Namespace, Labels: Labels(cluster.Name, component),
		OwnerReferences: []metav1.OwnerReference{OwnerReference(cluster)},
	}
}

func serverMeta(cluster *ramcloudv1.RAMCloudCluster, name string, index int32) metav1.ObjectMeta {
	m := meta(cluster, name, ComponentServer)
	m.Labels[LabelServer] = strconv.Itoa(int(index))
	return m
}

func memberMeta(cluster *ramcloudv1.RAMCloudCluster, name, component string, index int32) metav1.ObjectMeta {
	m := meta(cluster, name, component)
	m.Labels[LabelMember] = strconv.Itoa(int(index))
	return m
}

// NodePorts are a pod's ports for clients outside; 0: not allocated yet. Only coordinators have Admin.
type NodePorts struct {
	RPC   int32
	Admin int32
	// Host is the address of the pod's load balancer; empty: the ports are those of every node.
	Host string
}

// String is the form kept in AnnotationNodePorts.
func (p NodePorts) String() string {
	text := strconv.Itoa(int(p.RPC))
	if p.Admin != 0 {
		text += "," + strconv.Itoa(int(p.Admin))
	}
	if p.Host != "" {
		text += "@" + p.Host
	}
	return text
}

// ParseNodePorts reads AnnotationNodePorts; ports that cannot be read are "not allocated".
func ParseNodePorts(text string) NodePorts {
	text, host, _ := strings.Cut(text, "@")
	rpc, admin, _ := strings.Cut(text, ",")
	parse := func(s string) int32 {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return 0
		}
		return int32(n)
	}
	return NodePorts{RPC: parse(rpc), Admin: parse(admin), Host: host}
}
