package specs

import (
	"cmp"
	"maps"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
)

// HeadlessService gives the pods their stable names. Names resolve before a pod is ready, because servers
// enlist and are probed by the coordinator before they are ready.
func HeadlessService(cluster *ramcloudv1.RAMCloudCluster) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(cluster, cluster.Name, ""),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: map[string]string{LabelCluster: cluster.Name},
			Ports: []corev1.ServicePort{
				tcpPort("rpc", CoordinatorPort, CoordinatorPort, 0),
				tcpPort("admin", CoordinatorAdminPort, CoordinatorAdminPort, 0),
				tcpPort("server", ServerPort, ServerPort, 0),
			},
		},
	}
}

// CoordinatorOutsideService is the Service of coordinator `index` for clients outside. Node ports that are 0
// are left to the API server to choose.
func CoordinatorOutsideService(cluster *ramcloudv1.RAMCloudCluster, index int32, ports NodePorts) *corev1.Service {
	objectMeta := memberMeta(cluster, OutsideServiceName(CoordinatorName(cluster.Name, index)), ComponentCoordinator, index)
	selector := memberSelector(cluster, ComponentCoordinator)
	if WantedCoordinators(cluster) > 1 { // the pod of a single coordinator may be older than the label
		selector[LabelMember] = objectMeta.Labels[LabelMember]
	}
	service, ports := outsideService(cluster, objectMeta, selector), nodePorts(cluster, ports)
	service.Spec.Ports = []corev1.ServicePort{
		tcpPort("rpc", CoordinatorPort, CoordinatorOutsidePort, ports.RPC),
		tcpPort("admin", CoordinatorAdminPort, CoordinatorAdminPort, ports.Admin),
	}
	return service
}

// ServerOutsideService is the Service of server `index` for clients outside.
func ServerOutsideService(cluster *ramcloudv1.RAMCloudCluster, index int32, ports NodePorts) *corev1.Service {
	name := OutsideServiceName(ServerName(cluster.Name, index))
	objectMeta := serverMeta(cluster, name, index)
	service := outsideService(cluster, objectMeta, map[string]string{
		LabelCluster: cluster.Name, LabelServer: objectMeta.Labels[LabelServer],
	})
	service.Spec.Ports = []corev1.ServicePort{tcpPort("rpc", ServerPort, ServerPort, nodePorts(cluster, ports).RPC)}
	return service
}

// outsideService routes every node, or a load balancer, to the pod, ready or not: a client that wants this
// server must reach it or no server.
func outsideService(cluster *ramcloudv1.RAMCloudCluster, m metav1.ObjectMeta, selector map[string]string) *corev1.Service {
	kind := corev1.ServiceTypeNodePort
	if Balanced(cluster) {
		kind = corev1.ServiceTypeLoadBalancer
	}
	m.Annotations = maps.Clone(cluster.Spec.Expose.Annotations)
	return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{
		Type: kind, Selector: selector, PublishNotReadyAddresses: true,
	}}
}

// nodePorts are the ports to request; none for a load balancer.
func nodePorts(cluster *ramcloudv1.RAMCloudCluster, ports NodePorts) NodePorts {
	if Balanced(cluster) || ports.Host != "" {
		return NodePorts{}
	}
	return ports
}

func tcpPort(name string, port, target, nodePort int32) corev1.ServicePort {
	return corev1.ServicePort{
		Name: name, Port: port, TargetPort: intstr.FromInt32(target), NodePort: nodePort, Protocol: corev1.ProtocolTCP,
	}
}

// AllocatedNodePorts reads the address of an outside Service: its node ports, or its load balancer once that
// has an address.
func AllocatedNodePorts(service *corev1.Service) NodePorts {
	var ports NodePorts
	balanced := service.Spec.Type == corev1.ServiceTypeLoadBalancer
	if balanced {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			ports.Host = cmp.Or(ports.Host, ingress.IP, ingress.Hostname)
		}
		if ports.Host == "" {
			return NodePorts{}
		}
	}
	for _, p := range service.Spec.Ports {
		port := p.NodePort
		if balanced {
			port = p.Port
		}
		switch p.Name {
		case "rpc":
			ports.RPC = port
		case "admin":
			ports.Admin = port
		}
	}
	return ports
}

// CoordinatorVolumeClaim is the coordinator's volume; with an etcd it has none.
func CoordinatorVolumeClaim(cluster *ramcloudv1.RAMCloudCluster, index int32) *corev1.PersistentVolumeClaim {
	m := memberMeta(cluster, VolumeClaimName(CoordinatorName(cluster.Name, index), 1), ComponentCoordinator, index)
	return volumeClaim(cluster, m, cluster.Spec.Coordinator.Storage.StorageClass, coordinatorVolumeSize(cluster))
}

// EtcdVolumeClaim is the volume of etcd member `index`.
func EtcdVolumeClaim(cluster *ramcloudv1.RAMCloudCluster, index int32) *corev1.PersistentVolumeClaim {
	m := memberMeta(cluster, VolumeClaimName(EtcdName(cluster.Name, index), 1), ComponentEtcd, index)
	var class *string
	if managed := cluster.Spec.Metadata.ManagedEtcd; managed != nil {
		class = managed.Storage.StorageClass
	}
	if TLSStage(cluster) == plan.TLSRequired { // a member that starts on this claim is reached by TLS from the start
		m.Annotations = map[string]string{AnnotationPeerTLS: "true"}
	}
	return volumeClaim(cluster, m, class, *resource.NewQuantity(etcdVolumeBytes(cluster), resource.BinarySI))
}

// ServerVolumeClaim is the volume of server `index`.
func ServerVolumeClaim(cluster *ramcloudv1.RAMCloudCluster, index, generation int32) *corev1.PersistentVolumeClaim {
	m := serverMeta(cluster, VolumeClaimName(ServerName(cluster.Name, index), generation), index)
	m.Annotations = map[string]string{AnnotationEnlisted: ""}
	size := *resource.NewQuantity(ServerSizing(cluster).Volume, resource.BinarySI)
	claim := volumeClaim(cluster, m, cluster.Spec.Servers.BackupStorage.StorageClass, size)
	claim.Finalizers = []string{FinalizerVolume}
	if OnDevices(cluster) {
		block := corev1.PersistentVolumeBlock
		claim.Spec.VolumeMode = &block
	}
	return claim
}

func volumeClaim(cluster *ramcloudv1.RAMCloudCluster, m metav1.ObjectMeta, class *string, size resource.Quantity) *corev1.PersistentVolumeClaim {
	// A volume outlives its cluster by default: without an owner Kubernetes does not delete it.
	if cluster.Spec.PVCRetention != ramcloudv1.RetentionDelete {
		m.OwnerReferences = nil
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: m, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: class,
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}}
}

// Connection has the connection strings for clients, by the keys of the ConfigMap. outside are the
// coordinators' known addresses outside Kubernetes.
func Connection(cluster *ramcloudv1.RAMCloudCluster, outside []string) map[string]string {
	data := map[string]string{"cluster": CoordinatorAddress(cluster), "admin": AdminAddress(cluster)}
	if Exposed(cluster) && len(outside) > 0 {
		data["cluster-outside"] = strings.Join(outside, ",")
	}
	return data
}

// OutsideAddress is a coordinator's address for outside: its load balancer's, or its node's; empty if it is
// not known yet.
func OutsideAddress(node string, ports NodePorts) string {
	host := cmp.Or(ports.Host, node)
	if host == "" || ports.RPC == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(ports.RPC)))
}

// ConnectionConfigMap publishes the connection strings. Nothing in them is secret.
func ConnectionConfigMap(cluster *ramcloudv1.RAMCloudCluster, connection map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(cluster, ConnectionName(cluster.Name), ""), Data: connection}
}

// DisruptionBudget keeps at least `keep` servers ready when one is evicted (see plan.Evictions).
func DisruptionBudget(cluster *ramcloudv1.RAMCloudCluster, keep int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta(cluster, DisruptionBudgetName(cluster.Name), ComponentServer),
		Spec:       budgetSpec(keep, ServerSelector(cluster.Name)),
	}
}

// EtcdBudget keeps a majority of etcd's members.
func EtcdBudget(cluster *ramcloudv1.RAMCloudCluster) *policyv1.PodDisruptionBudget {
	return memberBudget(cluster, EtcdBudgetName(cluster.Name), ComponentEtcd, WantedEtcd(cluster)/2+1)
}

// CoordinatorBudget allows the eviction of one coordinator at a time. A single one may be evicted, too: it
// holds no data, and clients continue without it until it is back.
func CoordinatorBudget(cluster *ramcloudv1.RAMCloudCluster) *policyv1.PodDisruptionBudget {
	return memberBudget(cluster, CoordinatorBudgetName(cluster.Name), ComponentCoordinator, WantedCoordinators(cluster)-1)
}

// budgetSpec keeps `available` of the selected pods. A pod that is not ready may always be evicted: it serves
// nobody, and otherwise its node could never be drained.
func budgetSpec(available int32, selector map[string]string) policyv1.PodDisruptionBudgetSpec {
	least, always := intstr.FromInt32(available), policyv1.AlwaysAllow
	return policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: selector}, UnhealthyPodEvictionPolicy: &always,
	}
}

func memberBudget(cluster *ramcloudv1.RAMCloudCluster, name, component string, atLeast int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta(cluster, name, component), Spec: budgetSpec(atLeast, memberSelector(cluster, component)),
	}
}

func memberSelector(cluster *ramcloudv1.RAMCloudCluster, component string) map[string]string {
	return map[string]string{LabelCluster: cluster.Name, LabelComponent: component}
}

// Recovery is the record of a recovery.
func Recovery(cluster *ramcloudv1.RAMCloudCluster, id string) *ramcloudv1.RAMCloudRecovery {
	return &ramcloudv1.RAMCloudRecovery{
		ObjectMeta: meta(cluster, RecoveryName(cluster.Name, id), ""),
		Spec:       ramcloudv1.RAMCloudRecoverySpec{ClusterName: cluster.Name, ID: id},
	}
}

// RecoveryHistory is how many records of finished recoveries are kept.
func RecoveryHistory(cluster *ramcloudv1.RAMCloudCluster) int {
	if limit := cluster.Spec.RecoveryHistoryLimit; limit != nil {
		return int(*limit)
	}
	return defaultRecoveryHistory
}

// Server is the record of server `index`.
func Server(cluster *ramcloudv1.RAMCloudCluster, index int32) *ramcloudv1.RAMCloudServer {
	return &ramcloudv1.RAMCloudServer{
		ObjectMeta: serverMeta(cluster, ServerName(cluster.Name, index), index),
		Spec:       ramcloudv1.RAMCloudServerSpec{ClusterName: cluster.Name, Index: index},
	}
}
