package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FailureDomain is what may fail as one; replicas of a segment are placed in different ones.
// +kubebuilder:validation:Enum=server;node;zone
type FailureDomain string

// The accepted failure domains.
const (
	FailureDomainServer FailureDomain = "server"
	FailureDomainNode   FailureDomain = "node"
	FailureDomainZone   FailureDomain = "zone"
)

// ExposeType is how clients outside Kubernetes reach the cluster.
// +kubebuilder:validation:Enum=None;NodePort
type ExposeType string

// The accepted ways to expose a cluster.
const (
	ExposeNone     ExposeType = "None"
	ExposeNodePort ExposeType = "NodePort"
)

// RetentionPolicy is what happens to the volumes when the cluster is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type RetentionPolicy string

// The accepted retention policies.
const (
	RetentionRetain RetentionPolicy = "Retain"
	RetentionDelete RetentionPolicy = "Delete"
)

// RAMCloudClusterSpec is what the user wants. (The rules ask for has(servers) only because the schema's
// default for spec is checked before the defaults inside it are filled in. Fewer servers than
// replicationFactor needs are refused when a cluster is made and when replicationFactor is raised;
// scaling below it is a transition, answered by the condition ScaleBlocked.)
//
// +kubebuilder:validation:XValidation:rule="!has(self.servers) || self.servers.replicas >= self.replicationFactor + 1 || (oldSelf.hasValue() && oldSelf.value().replicationFactor == self.replicationFactor)",optionalOldSelf=true,fieldPath=".servers.replicas",reason=FieldValueInvalid,messageExpression="'spec.servers.replicas is %d and spec.replicationFactor is %d: every segment needs %d replicas on other servers than its own; accepted: servers.replicas >= %d'.format([self.servers.replicas, self.replicationFactor, self.replicationFactor, self.replicationFactor + 1])"
// +kubebuilder:validation:XValidation:rule="!has(self.servers) || !has(self.servers.backupStorage.size) || quantity(string(self.servers.backupStorage.size)).asInteger() >= 2 * self.replicationFactor * quantity(string(self.servers.memory.log)).asInteger()",fieldPath=".servers.backupStorage.size",reason=FieldValueInvalid,messageExpression="'spec.servers.backupStorage.size is %s: a server keeps replicas of about replicationFactor (%d) times servers.memory.log (%s) and as much again as room to place them; accepted: at least %d bytes, or leave it out'.format([self.servers.backupStorage.size, self.replicationFactor, self.servers.memory.log, 2 * self.replicationFactor * quantity(string(self.servers.memory.log)).asInteger()])"
type RAMCloudClusterSpec struct {
	// The coordinator: it knows the servers and tables, and is not on the path of reads and writes.
	// +optional
	// +kubebuilder:default={}
	Coordinator CoordinatorSpec `json:"coordinator,omitzero"`

	// The servers: each holds a part of the data in memory and replicas of others' data on its volume.
	// +optional
	// +kubebuilder:default={}
	Servers ServersSpec `json:"servers,omitzero"`

	// R: on how many other servers' volumes every write is kept before it is acknowledged.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	ReplicationFactor int32 `json:"replicationFactor,omitempty"`

	// What may fail as one: the replicas of a segment are kept in different domains. "zone" reads the
	// label topology.kubernetes.io/zone, which Kubernetes puts on pods since 1.35.
	// +optional
	// +kubebuilder:default=server
	FailureDomain FailureDomain `json:"failureDomain,omitempty"`

	// How clients outside Kubernetes reach the cluster. There is no authentication yet: who can reach
	// the ports can read and write everything.
	// +optional
	// +kubebuilder:default={}
	Expose ExposeSpec `json:"expose,omitzero"`

	// Images, where others than the operator's default are wanted.
	// +optional
	Images ImagesSpec `json:"images,omitzero"`

	// What happens to the volumes when this object is deleted.
	// +optional
	// +kubebuilder:default=Retain
	PVCRetention RetentionPolicy `json:"pvcRetention,omitempty"`
}

// CoordinatorSpec describes the coordinator's pod.
type CoordinatorSpec struct {
	// Compute resources. Default: 50m CPU and 64Mi requested, at most 256Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Volume of the cluster's metadata.
	// +optional
	Storage StorageSpec `json:"storage,omitzero"`
}

// ServersSpec describes the servers.
type ServersSpec struct {
	// How many servers. Fewer than there are is refused (condition ScaleBlocked) while tablets cannot
	// be moved.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// Memory for data.
	// +optional
	// +kubebuilder:default={}
	Memory MemorySpec `json:"memory,omitzero"`

	// Compute resources. Default: 50m CPU; memory is derived from the log, the hash table and buffers.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Volume of each server: replicas of other servers' data.
	// +optional
	// +kubebuilder:default={}
	BackupStorage StorageSpec `json:"backupStorage,omitzero"`

	// What else the servers' pods get.
	// +optional
	Template ServerTemplate `json:"template,omitzero"`
}

// MemorySpec sizes a server's memory.
type MemorySpec struct {
	// Memory of the log, which holds the objects.
	// +optional
	// +kubebuilder:default="256Mi"
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('64Mi')) && quantity(string(self)).isInteger()",reason=FieldValueInvalid,messageExpression="'spec.servers.memory.log is %s; accepted: a whole number of bytes, at least 64Mi (8 segments)'.format([self])"
	Log *resource.Quantity `json:"log,omitempty"`

	// Memory of the hash table, as a fraction of the log's.
	// +optional
	// +kubebuilder:default="0.125"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1'))",reason=FieldValueInvalid,messageExpression="'spec.servers.memory.hashTableFraction is %s; accepted: more than 0 and at most 1, for example 125m'.format([self])"
	HashTableFraction *resource.Quantity `json:"hashTableFraction,omitempty"`
}

// StorageSpec describes one pod's volume.
type StorageSpec struct {
	// Storage class; the cluster's default class when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClass *string `json:"storageClass,omitempty"`

	// Size of the volume. Default for servers: 2 x replicationFactor x memory.log and a little for the
	// file system; for the coordinator: 1Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isInteger()",reason=FieldValueInvalid,messageExpression="'size is %s; accepted: a whole number of bytes, more than 0, for example 2Gi'.format([self])"
	Size *resource.Quantity `json:"size,omitempty"`
}

// ServerTemplate is what a server's pod gets beside what it needs.
type ServerTemplate struct {
	// Labels and annotations of the pods. The operator's own labels win.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Constraints without a label selector get one that selects the cluster's servers. Default: spread
	// over hosts where possible.
	// +optional
	// +listType=atomic
	TopologySpread []corev1.TopologySpreadConstraint `json:"topologySpread,omitempty"`
}

// TemplateMetadata is the part of a pod's metadata that a user can add to.
type TemplateMetadata struct {
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ExposeSpec says how the cluster is reached from outside.
type ExposeSpec struct {
	// +optional
	// +kubebuilder:default=None
	Type ExposeType `json:"type,omitempty"`
}

// ImagesSpec overrides images.
type ImagesSpec struct {
	// Image of coordinator and servers. Default: the one the operator was installed with.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Node string `json:"node,omitempty"`
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// +optional
	// +listType=atomic
	PullSecrets []corev1.LocalObjectReference `json:"pullSecrets,omitempty"`
}

// RAMCloudClusterStatus is what is known. Everything about servers, tables and data comes from the
// coordinator's admin API, nothing is inferred from pods.
type RAMCloudClusterStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready, Progressing, Degraded, ScaleBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	Coordinator CoordinatorStatus `json:"coordinator,omitzero"`
	// +optional
	Servers ServersStatus `json:"servers,omitzero"`
	// +optional
	Data DataStatus `json:"data,omitzero"`
	// Label selector of the servers' pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// CoordinatorStatus is what the coordinator says about itself.
type CoordinatorStatus struct {
	// Identity of the cluster, also kept on every volume.
	// +optional
	ClusterUUID string `json:"clusterUUID,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Term int64 `json:"term,omitempty"`
	// The coordinator's pod differs from what spec asks for; it is not restarted for that.
	// +optional
	PendingRestart bool `json:"pendingRestart,omitempty"`
	// The last time the pod failed.
	// +optional
	LastFailure *PodFailure `json:"lastFailure,omitempty"`
}

// ServersStatus counts servers.
type ServersStatus struct {
	// Servers that exist, as RAMCloudServer objects.
	// +optional
	Replicas int32 `json:"replicas"`
	// Servers that the coordinator lists as up.
	// +optional
	Ready int32 `json:"ready"`
	// "ready/existing", for people.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Earlier incarnations that the coordinator lists as crashed.
	// +optional
	Crashed int32 `json:"crashed,omitempty"`
	// Servers whose pod differs from what spec asks for; they are not restarted for that, because a
	// restart loses what they hold in memory.
	// +optional
	PendingRestart int32 `json:"pendingRestart,omitempty"`
}

// DataState says in a word whether all data can be read.
type DataState string

// The states of the data.
const (
	// DataComplete: every tablet is served.
	DataComplete DataState = "Complete"
	// DataPartial: some tablets are not served.
	DataPartial DataState = "Partial"
	// DataUnknown: the coordinator does not answer.
	DataUnknown DataState = "Unknown"
)

// DataStatus describes the data, as of the coordinator's last report.
type DataStatus struct {
	// +optional
	State DataState `json:"state,omitempty"`
	// +optional
	Tables int32 `json:"tables,omitempty"`
	// +optional
	Tablets int32 `json:"tablets,omitempty"`
	// +optional
	TabletsUnavailable int32 `json:"tabletsUnavailable,omitempty"`
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Log memory in use and in all, over the servers that are up.
	// +optional
	MemoryUsed *resource.Quantity `json:"memoryUsed,omitempty"`
	// +optional
	MemoryTotal *resource.Quantity `json:"memoryTotal,omitempty"`
	// +optional
	Replication ReplicationStatus `json:"replication,omitzero"`
}

// ReplicationStatus sums the replication of all servers' logs.
type ReplicationStatus struct {
	// +optional
	Segments int64 `json:"segments,omitempty"`
	// +optional
	FullyReplicated int64 `json:"fullyReplicated,omitempty"`
	// +optional
	UnderReplicated int64 `json:"underReplicated,omitempty"`
}

// PodFailure is a pod that Kubernetes gave up.
type PodFailure struct {
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// Failures in a row; the wait before the pod is made anew doubles with each.
	// +optional
	Count int32 `json:"count,omitempty"`
}

// Condition types of a RAMCloudCluster. Each is set by internal/status and nobody else.
const (
	// ConditionReady: the coordinator answers, every wanted server is up, every tablet is served.
	ConditionReady = "Ready"
	// ConditionProgressing: something the operator started is not finished.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something is broken that will not go away by waiting for a start.
	ConditionDegraded = "Degraded"
	// ConditionScaleBlocked: spec.servers.replicas asks for what cannot be done safely.
	ConditionScaleBlocked = "ScaleBlocked"
)

// Reasons of conditions. They are stable: alerts and scripts may match them.
const (
	ReasonAllServersUp            = "AllServersUp"
	ReasonCoordinatorNotAnswering = "CoordinatorNotAnswering"
	ReasonServersNotUp            = "ServersNotUp"
	ReasonTabletsUnavailable      = "TabletsUnavailable"
	ReasonUnderReplicated         = "UnderReplicated"
	ReasonPodsFailing             = "PodsFailing"
	ReasonVolumeNotOurs           = "VolumeNotOurs"
	ReasonAsExpected              = "AsExpected"
	ReasonStarting                = "Starting"
	ReasonSettled                 = "Settled"
	ReasonScaleInNotSupported     = "ScaleInNotSupported"
	ReasonNotBlocked              = "NotBlocked"
)

// RAMCloudCluster is a cluster that keeps tables of objects in the memory of its servers, and every
// object's replicas on the volumes of others.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rcc,categories=all;ramcloud
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.servers.replicas,statuspath=.status.servers.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Servers",type=string,JSONPath=`.status.servers.summary`,description="servers up / servers that exist"
// +kubebuilder:printcolumn:name="Data",type=string,JSONPath=`.status.data.state`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.data.memoryUsed`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.data.memoryTotal`,priority=1
// +kubebuilder:printcolumn:name="Tables",type=integer,JSONPath=`.status.data.tables`,priority=1
// +kubebuilder:printcolumn:name="Replication",type=integer,JSONPath=`.spec.replicationFactor`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",reason=FieldValueInvalid,messageExpression="'metadata.name is %s; accepted: at most 40 of a-z, 0-9 and -, beginning with a letter and not ending with -, because it becomes part of host names'.format([self.metadata.name])"
type RAMCloudCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default={}
	Spec RAMCloudClusterSpec `json:"spec,omitzero"`
	// +optional
	Status RAMCloudClusterStatus `json:"status,omitzero"`
}

// RAMCloudClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type RAMCloudClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RAMCloudCluster `json:"items"`
}
