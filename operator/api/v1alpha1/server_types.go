package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RAMCloudServerSpec says which server of which cluster this is. The operator writes it. To change a server, change the
// RAMCloudCluster.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="spec of a RAMCloudServer does not change; change the RAMCloudCluster"
type RAMCloudServerSpec struct {
	// Name of the RAMCloudCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ClusterName string `json:"clusterName,omitempty"`
	// Number of the server, from 0. It is also in the name of the pod.
	// +required
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`
}

// ServerState is the state of the server at the coordinator.
type ServerState string

// The states of a server.
const (
	// ServerNotEnlisted: the coordinator has no live server of this name (yet).
	ServerNotEnlisted ServerState = "NotEnlisted"
	ServerUp          ServerState = "Up"
	// ServerCrashed: the coordinator decided that the server is dead. When it restarts, it gets a new id.
	ServerCrashed ServerState = "Crashed"
	// ServerUnknown: the coordinator does not answer.
	ServerUnknown ServerState = "Unknown"
)

// Reasons of the condition Ready of a RAMCloudServer. They are stable, like those of a cluster. If the coordinator does not
// answer, the condition is Unknown with ReasonCoordinatorNotAnswering.
const (
	// ReasonUp: the coordinator lists the server as up.
	ReasonUp = "Up"
	// ReasonNotEnlisted: the coordinator has no live server of this name (yet); the message says what its pod waits for.
	ReasonNotEnlisted = "NotEnlisted"
	// ReasonCrashed: the coordinator decided that the server is dead. When it restarts, it gets a new id.
	ReasonCrashed = "Crashed"
)

// RAMCloudServerStatus is what the coordinator and Kubernetes report about the server.
type RAMCloudServerStatus struct {
	// Ready: the coordinator lists the server as up.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The metadata.generation that the operator read last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State of the server: Up, NotEnlisted (the coordinator has no live server of this name), Crashed, or Unknown (the
	// coordinator does not answer).
	// +optional
	State ServerState `json:"state,omitempty"`
	// Why the state is not Up.
	// +optional
	StateReason string `json:"stateReason,omitempty"`
	// Id of the running server at the coordinator. Each restart gives the server a new id.
	// +optional
	Incarnation string `json:"incarnation,omitempty"`
	// Address of the server inside the cluster.
	// +optional
	Locator string `json:"locator,omitempty"`
	// Address of the server for clients outside Kubernetes, if it is exposed.
	// +optional
	LocatorOutside string `json:"locatorOutside,omitempty"`
	// Version of the server.
	// +optional
	Version string `json:"version,omitempty"`
	// Number of tablets that the server serves.
	// +optional
	Tablets int32 `json:"tablets"`
	// Number of objects that the server has.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Log memory in use.
	// +optional
	MemoryUsed *resource.Quantity `json:"memoryUsed,omitempty"`
	// Part of memoryUsed that live objects take. The rest belongs to overwritten and deleted objects. The cleaner frees it
	// when memory is short.
	// +optional
	MemoryLive *resource.Quantity `json:"memoryLive,omitempty"`
	// Size of the log memory.
	// +optional
	MemoryTotal *resource.Quantity `json:"memoryTotal,omitempty"`
	// Where the server runs.
	// +optional
	Placement ServerPlacement `json:"placement,omitzero"`
	// True if the pod differs from what the RAMCloudCluster asks for. The pod is restarted only when
	// spec.update.restartRequest of the RAMCloudCluster asks for it.
	// +optional
	PendingRestart bool `json:"pendingRestart,omitempty"`
	// Highest number (generation) of the server's volume claims so far. The number is a part of the claim's name, so that
	// a new claim never gets the name of an earlier one.
	// +optional
	VolumeGeneration int32 `json:"volumeGeneration,omitempty"`
	// The last time the pod failed.
	// +optional
	LastFailure *PodFailure `json:"lastFailure,omitempty"`
}

// ServerPlacement is where a server runs.
type ServerPlacement struct {
	// Name of the node.
	// +optional
	Node string `json:"node,omitempty"`
	// Failure domain that the server reported to the coordinator.
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`
}

// RAMCloudServer is the record of one server of a RAMCloudCluster, as the operator and the coordinator see it. It has
// the same name as its pod.
//
// It has no finalizer: data cannot be moved away from a server yet, and an object with a finalizer could not be
// deleted after the operator was uninstalled. Pods and volumes belong to the RAMCloudCluster, so deleting this
// record by accident does not restart a server.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rcs,categories=ramcloud
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.incarnation`
// +kubebuilder:printcolumn:name="Tablets",type=integer,JSONPath=`.status.tablets`
// +kubebuilder:printcolumn:name="Live",type=string,JSONPath=`.status.memoryLive`,description="log memory that live objects take"
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.memoryUsed`,description="log memory in use, dead objects included"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.memoryTotal`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.placement.node`
// +kubebuilder:printcolumn:name="Locator",type=string,JSONPath=`.status.locator`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.stateReason`,priority=1
// +kubebuilder:printcolumn:name="Outside",type=string,JSONPath=`.status.locatorOutside`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RAMCloudServer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +required
	Spec RAMCloudServerSpec `json:"spec,omitzero"`
	// +optional
	Status RAMCloudServerStatus `json:"status,omitzero"`
}

// RAMCloudServerList is a list of servers.
//
// +kubebuilder:object:root=true
type RAMCloudServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RAMCloudServer `json:"items"`
}
