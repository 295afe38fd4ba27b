package v1alpha1

// Transport is what the messages travel over.
// +kubebuilder:validation:Enum=tcp;rdma;dpdk
type Transport string

// The transports.
const (
	TransportTCP  Transport = "tcp"
	TransportRDMA Transport = "rdma"
	TransportDPDK Transport = "dpdk"
)

// NetworkProvider is how a pod comes to the device that its transport needs.
// +kubebuilder:validation:Enum=pod;sharedRDMA;sriov;dra
type NetworkProvider string

// The providers.
const (
	// ProviderPod: the pod's ordinary network.
	ProviderPod NetworkProvider = "pod"
	// ProviderSharedRDMA: a device that pods share, by the RDMA shared device plugin.
	ProviderSharedRDMA NetworkProvider = "sharedRDMA"
	// ProviderSRIOV: a virtual function for each pod, by the SR-IOV device plugin.
	ProviderSRIOV NetworkProvider = "sriov"
	// ProviderDRA: a device by a resource claim.
	ProviderDRA NetworkProvider = "dra"
)

// NetworkSpec says how servers and clients talk to each other.
//
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport == 'tcp'",fieldPath=".transport",reason=FieldValueInvalid,messageExpression="'spec.network.transport is %s, which is not supported yet; accepted: tcp'.format([self.transport])"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'pod'",fieldPath=".provider",reason=FieldValueInvalid,messageExpression="'spec.network.provider is %s, which is not supported yet; accepted: pod'.format([self.provider])"
// +kubebuilder:validation:XValidation:rule="!has(self.resourceName) && !has(self.networkAttachment)",reason=FieldValueInvalid,messageExpression="'spec.network.provider is %s, which takes no device: resourceName and networkAttachment are for sharedRDMA and sriov, which are not supported yet; accepted: leave both out'.format([self.provider])"
type NetworkSpec struct {
	// +optional
	// +kubebuilder:default=tcp
	Transport Transport `json:"transport,omitempty"`
	// +optional
	// +kubebuilder:default=pod
	Provider NetworkProvider `json:"provider,omitempty"`
	// Extended resource of the device plugin, for example rdma/hca_shared_devices_a.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`
	// NetworkAttachmentDefinition, as [namespace/]name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NetworkAttachment string `json:"networkAttachment,omitempty"`
}
