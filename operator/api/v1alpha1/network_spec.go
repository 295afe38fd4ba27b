package v1alpha1

// Transport is what messages travel over. (Lower case: as earlier versions wrote it.)
// +kubebuilder:validation:Enum=TCP;RDMA;DPDK;tcp;rdma;dpdk
type Transport string

// The transports.
const (
	TransportTCP  Transport = "TCP"
	TransportRDMA Transport = "RDMA"
	TransportDPDK Transport = "DPDK"
)

// NetworkProvider is how a pod gets the device that its transport needs. (Lower case: as earlier versions wrote it.)
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
	// ProviderDRA: a device by a resource claim.
	ProviderDRA NetworkProvider = "DRA"
)

// NetworkSpec says how servers and clients talk to each other.
//
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport in ['TCP', 'tcp']",fieldPath=".transport",reason=FieldValueInvalid,messageExpression="'spec.network.transport is %s, which is not supported yet; accepted: TCP'.format([self.transport])"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider in ['Pod', 'pod']",fieldPath=".provider",reason=FieldValueInvalid,messageExpression="'spec.network.provider is %s, which is not supported yet; accepted: Pod'.format([self.provider])"
// +kubebuilder:validation:XValidation:rule="!has(self.resourceName) && !has(self.networkAttachmentRef)",reason=FieldValueInvalid,messageExpression="'spec.network.provider is %s, which takes no device: resourceName and networkAttachmentRef are for SharedRDMA and SRIOV, which are not supported yet; accepted: leave both out'.format([has(self.provider) ? self.provider : 'Pod'])"
type NetworkSpec struct {
	// What messages travel over. Only TCP is supported. (Lower case: as earlier versions wrote it.)
	// +optional
	// +kubebuilder:default=TCP
	Transport Transport `json:"transport,omitempty"`
	// How a pod gets the device that its transport needs. Only Pod is supported: the pod's own network. (Lower case: as
	// earlier versions wrote it.)
	// +optional
	// +kubebuilder:default=Pod
	Provider NetworkProvider `json:"provider,omitempty"`
	// Extended resource of the device plugin, for example rdma/hca_shared_devices_a.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`
	// The NetworkAttachmentDefinition that brings the device into the pod.
	// +optional
	NetworkAttachmentRef *NetworkAttachmentReference `json:"networkAttachmentRef,omitempty"`
}

// NetworkAttachmentReference names a NetworkAttachmentDefinition.
type NetworkAttachmentReference struct {
	// Its namespace. Default: that of the cluster.
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
