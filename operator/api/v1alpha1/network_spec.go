package v1alpha1

// Transport is the network protocol of messages. (The lower-case values are the spellings of earlier versions.)
// +kubebuilder:validation:Enum=TCP;RDMA;DPDK;tcp;rdma;dpdk
type Transport string

// The transports.
const (
	TransportTCP  Transport = "TCP"
	TransportRDMA Transport = "RDMA"
	TransportDPDK Transport = "DPDK"
)

// NetworkProvider says how a pod gets the network device that its transport needs. (The values that begin with a
// lower-case letter are the spellings of earlier versions.)
// +kubebuilder:validation:Enum=Pod;SharedRDMA;SRIOV;DRA;pod;sharedRDMA;sriov;dra
type NetworkProvider string

// The providers.
const (
	// ProviderPod: the pod's ordinary network.
	ProviderPod NetworkProvider = "Pod"
	// ProviderSharedRDMA: a device that pods share, by the RDMA shared device plugin.
	ProviderSharedRDMA NetworkProvider = "SharedRDMA"
	// ProviderSRIOV: a virtual function for each pod, by the SR-IOV device plugin.
	ProviderSRIOV NetworkProvider = "SRIOV"
	// ProviderDRA: a device that a resource claim allocates (dynamic resource allocation).
	ProviderDRA NetworkProvider = "DRA"
)

// NetworkSpec describes the network between clients and servers, and between servers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport in ['TCP', 'tcp']",fieldPath=".transport",reason=FieldValueInvalid,messageExpression="'spec.network.transport is %s, which is not supported yet; accepted: TCP'.format([self.transport])"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider in ['Pod', 'pod']",fieldPath=".provider",reason=FieldValueInvalid,messageExpression="'spec.network.provider is %s, which is not supported yet; accepted: Pod'.format([self.provider])"
// +kubebuilder:validation:XValidation:rule="!has(self.resourceName) && !has(self.networkAttachmentRef)",reason=FieldValueInvalid,messageExpression="'spec.network.provider is %s, which takes no device: resourceName and networkAttachmentRef are for SharedRDMA and SRIOV, which are not supported yet; accepted: leave both out'.format([has(self.provider) ? self.provider : 'Pod'])"
type NetworkSpec struct {
	// Network protocol of messages. Only TCP is supported. (The lower-case values are the spellings of earlier versions.)
	// +optional
	// +kubebuilder:default=TCP
	Transport Transport `json:"transport,omitempty"`
	// How a pod gets the network device that its transport needs. Only Pod is supported: the pod's own network. (The values
	// that begin with a lower-case letter are the spellings of earlier versions.)
	// +optional
	// +kubebuilder:default=Pod
	Provider NetworkProvider `json:"provider,omitempty"`
	// Extended resource that the device plugin provides, for example rdma/hca_shared_devices_a. Not supported yet.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`
	// NetworkAttachmentDefinition that adds the device to the pod. Not supported yet.
	// +optional
	NetworkAttachmentRef *NetworkAttachmentReference `json:"networkAttachmentRef,omitempty"`
}

// NetworkAttachmentReference names a NetworkAttachmentDefinition.
type NetworkAttachmentReference struct {
	// Namespace of the NetworkAttachmentDefinition. Default: that of the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Name of the NetworkAttachmentDefinition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}
