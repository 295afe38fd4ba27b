package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RAMCloudClusterStatus is what is known. Everything about servers, tables and data comes from the
// coordinator's admin API, nothing is inferred from pods.
type RAMCloudClusterStatus struct {
	// Ready, Progressing, Degraded, ScaleBlocked, ConsistentIdentity, Resizing, UpToDate, Paused, DeprecatedFields.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Generation of the spec that the operator has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// What the coordinator says about itself.
	// +optional
	Coordinator CoordinatorStatus `json:"coordinator,omitzero"`
	// How many servers there are.
	// +optional
	Servers ServersStatus `json:"servers,omitzero"`
	// The data, as of the coordinator's last report.
	// +optional
	Data DataStatus `json:"data,omitzero"`
	// The etcd that the operator runs; empty without one.
	// +optional
	Etcd EtcdStatus `json:"etcd,omitzero"`
	// How many volumes and servers cannot get the size that spec asks for.
	// +optional
	Resizing ResizingStatus `json:"resizing,omitzero"`
	// Pods that differ from what spec asks for, what differs, and why they are not restarted now. At most
	// 20 are listed.
	// +optional
	// +listType=map
	// +listMapKey=pod
	PendingRestart []PendingRestart `json:"pendingRestart,omitempty"`
	// Templates that new pods are made from, and what a roll would bring.
	// +optional
	// +listType=map
	// +listMapKey=component
	Revisions []RevisionStatus `json:"revisions,omitempty"`
	// Label selector of the servers' pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// CoordinatorStatus is what the coordinator says about itself.
type CoordinatorStatus struct {
	// Identity of the cluster, also kept on every volume. Written once. If a store with another identity answers, the operator
	// changes nothing (condition ConsistentIdentity).
	// +optional
	ClusterUUID string `json:"clusterUUID,omitempty"`
	// Version of the leading coordinator.
	// +optional
	Version string `json:"version,omitempty"`
	// Term of its leadership. Each new leadership has a higher one.
	// +optional
	Term int64 `json:"term,omitempty"`
	// Coordinators that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// Coordinators whose pods are ready.
	// +optional
	Ready int32 `json:"ready"`
	// The last failures of the coordinators' pods.
	// +optional
	// +listType=map
	// +listMapKey=pod
	LastFailures []MemberFailure `json:"lastFailures,omitempty"`
}

// EtcdStatus is what is known of the etcd that the operator runs.
type EtcdStatus struct {
	// Members that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// Members whose pods are ready.
	// +optional
	Ready int32 `json:"ready"`
	// The etcd was complete once. From then on a member that lost its volume is not started with an empty one: a member
	// that forgot its votes can lose what a majority agreed on.
	// +optional
	Formed bool `json:"formed,omitempty"`
	// How the etcd is connected to. "Required": only TLS, with certificates on both sides. An etcd of an earlier operator is
	// "Off" until you ask for a restart (spec.update.restartRequest). Then it goes by itself through "Offered" (members take
	// both) and "Used" (coordinators connect by TLS) to "Required".
	// +optional
	// +kubebuilder:validation:Enum=Off;Offered;Used;Required
	TLS string `json:"tls,omitempty"`
	// The last failures of the members' pods.
	// +optional
	// +listType=map
	// +listMapKey=pod
	LastFailures []MemberFailure `json:"lastFailures,omitempty"`
}

// ResizingStatus counts what keeps another size than spec asks for. The condition Resizing says why.
type ResizingStatus struct {
	// Volumes that cannot grow to the size that spec asks for. While there is one, spec may ask for smaller volumes.
	// +optional
	VolumesInfeasible int32 `json:"volumesInfeasible,omitempty"`
	// Servers that get the memory that spec asks for only when they are restarted.
	// +optional
	ServersInfeasible int32 `json:"serversInfeasible,omitempty"`
}

// MemberFailure is the last failure of a pod of the coordinators or of etcd.
type MemberFailure struct {
	// Name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	Pod string `json:"pod,omitempty"`
	// +optional
	PodFailure `json:",inline"`
}

// PendingRestart is a pod that differs from what spec asks for.
type PendingRestart struct {
	// Name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	Pod string `json:"pod,omitempty"`
	// What differs, with the old and the new value.
	// +optional
	// +listType=atomic
	Differs []string `json:"differs,omitempty"`
	// Why it is not restarted now, and what to do.
	// +optional
	Waits string `json:"waits,omitempty"`
}

// RevisionStatus names the ControllerRevisions with the templates of a component's pods.
type RevisionStatus struct {
	// etcd, coordinator or server.
	// +required
	// +kubebuilder:validation:MinLength=1
	Component string `json:"component,omitempty"`
	// ControllerRevision that new pods are made from.
	// +optional
	Current string `json:"current,omitempty"`
	// ControllerRevision that a roll would bring. Empty: a roll would change nothing.
	// +optional
	Pending string `json:"pending,omitempty"`
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
	// Why no server may be evicted now, as by kubectl drain. Empty: one may.
	// +optional
	EvictionsHeld string `json:"evictionsHeld,omitempty"`
	// Servers whose pod differs from what spec asks for. They are not restarted for that before spec.update.restartRequest
	// asks for it.
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
	// Complete: every tablet is served. Partial: some are not. Unknown: the coordinator does not answer.
	// +optional
	State DataState `json:"state,omitempty"`
	// Tables.
	// +optional
	Tables int32 `json:"tables,omitempty"`
	// Tablets of all tables.
	// +optional
	Tablets int32 `json:"tablets,omitempty"`
	// Tablets that are not served.
	// +optional
	TabletsUnavailable int32 `json:"tabletsUnavailable,omitempty"`
	// Objects in all tables.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Log memory in use, over the servers that are up.
	// +optional
	MemoryUsed *resource.Quantity `json:"memoryUsed,omitempty"`
	// What of it live objects take. The rest is dead, and is cleaned away when memory is short.
	// +optional
	MemoryLive *resource.Quantity `json:"memoryLive,omitempty"`
	// Log memory in all, over the servers that are up.
	// +optional
	MemoryTotal *resource.Quantity `json:"memoryTotal,omitempty"`
	// Servers that may crash at the same time without loss of data, whichever they are. Left out if it is none, or if the
	// coordinator does not tell.
	// +optional
	SurvivesServers *int32 `json:"survivesServers,omitempty"`
	// Replication of all servers' logs.
	// +optional
	Replication ReplicationStatus `json:"replication,omitzero"`
}

// ReplicationStatus sums the replication of all servers' logs.
type ReplicationStatus struct {
	// The replication factor in force, as the masters report it; the largest where they differ. Left out until a master has
	// reported it.
	// +optional
	Factor int32 `json:"factor,omitempty"`
	// Segments of all logs.
	// +optional
	Segments int64 `json:"segments,omitempty"`
	// Segments with all replicas.
	// +optional
	FullyReplicated int64 `json:"fullyReplicated,omitempty"`
	// Segments that lack replicas.
	// +optional
	UnderReplicated int64 `json:"underReplicated,omitempty"`
}

// PodFailure is a pod that Kubernetes gave up.
type PodFailure struct {
	// Kubernetes' reason.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Kubernetes' message.
	// +optional
	Message string `json:"message,omitempty"`
	// When the pod failed.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// Failures in a row. The wait before the pod is re-created doubles with each.
	// +optional
	Count int32 `json:"count,omitempty"`
}

// Condition types of a RAMCloudCluster; a RAMCloudServer has Ready. Each is set by internal/status and nobody else.
const (
	// ConditionReady: the coordinator answers, every wanted server, coordinator and member of etcd is up, every tablet is
	// served. Unknown: an operator that has just started cannot reach the coordinator.
	ConditionReady = "Ready"
	// ConditionProgressing: something that the operator started is not finished.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something is broken, and waiting for a start will not repair it.
	ConditionDegraded = "Degraded"
	// ConditionScaleBlocked: spec.servers.replicas asks for what cannot be done safely.
	ConditionScaleBlocked = "ScaleBlocked"
	// ConditionConsistentIdentity: the store that answers is the one that the cluster was made with.
	ConditionConsistentIdentity = "ConsistentIdentity"
	// ConditionRecovering: a server crashed, and others read its data from replicas. The message has how far they are, and what
	// is waited for.
	ConditionRecovering = "Recovering"
	// ConditionResizing: volumes are growing to the size that spec asks for, or servers get another size of memory while they
	// run. A cluster whose sizes were never changed does not have it.
	ConditionResizing = "Resizing"
	// ConditionUpToDate: every pod is made from what this operator makes of spec. False says what waits: nothing rolls
	// by itself.
	ConditionUpToDate = "UpToDate"
	// ConditionPaused: spec.paused is set, and the operator changes nothing.
	ConditionPaused = "Paused"
	// ConditionDeprecatedFields: spec has fields or values that the next minor version refuses; the message says what to
	// write instead.
	ConditionDeprecatedFields = "DeprecatedFields"
)

// Reasons of conditions. They are stable: alerts and scripts may match them. docs/reference/conditions.md is written from
// these comments.
const (
	// ReasonAllServersUp: Ready: every server is up, every tablet is served, no coordinator or member of etcd is down.
	ReasonAllServersUp = "AllServersUp"
	// ReasonCoordinatorNotAnswering: the coordinator does not answer. With Ready Unknown: this operator has not
	// reached it since it started.
	ReasonCoordinatorNotAnswering = "CoordinatorNotAnswering"
	// ReasonServersNotUp: the coordinator does not list every wanted server as up.
	ReasonServersNotUp = "ServersNotUp"
	// ReasonCoordinatorsDown: pods of coordinators are not ready. The cluster works while one of them leads.
	ReasonCoordinatorsDown = "CoordinatorsDown"
	// ReasonEtcdMembersDown: pods of etcd members are not ready. Without a majority no table can be created or dropped.
	ReasonEtcdMembersDown = "EtcdMembersDown"
	// ReasonTabletsUnavailable: a part of the data cannot be read.
	ReasonTabletsUnavailable = "TabletsUnavailable"
	// ReasonIdentityChanged: the coordinator that answers leads another cluster than the recorded one; the operator changes
	// nothing.
	ReasonIdentityChanged = "IdentityChanged"
	// ReasonIdentityPinned: the store is the cluster that is recorded in status.coordinator.clusterUUID.
	ReasonIdentityPinned = "IdentityPinned"
	// ReasonIdentityNotKnown: the coordinator has not answered yet, so there is nothing to compare.
	ReasonIdentityNotKnown = "IdentityNotKnown"
	// ReasonVolumeNotOurs: a volume claim with the name of one of ours belongs to something else.
	ReasonVolumeNotOurs = "VolumeNotOurs"
	// ReasonNetworkNotSupported: spec.network asks for what is not supported yet; no pods are made.
	ReasonNetworkNotSupported = "NetworkNotSupported"
	// ReasonMetadataVolumeLost: a volume with metadata is lost, and is not replaced by an empty one.
	ReasonMetadataVolumeLost = "MetadataVolumeLost"
	// ReasonVolumeTerminating: somebody deleted a server's volume claim; it is kept until the coordinator releases it.
	ReasonVolumeTerminating = "VolumeTerminating"
	// ReasonVolumeLost: the volume behind a server's claim is lost, and the claim is kept until the coordinator releases it; or
	// the claim does not exist and the server is still listed as up.
	ReasonVolumeLost = "VolumeLost"
	// ReasonReconcileFailed: a step of the operator failed; the message is the API server's. The operator tries
	// again.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonServersSilent: the coordinator hears too few servers to tell who is dead, and condemns none.
	ReasonServersSilent = "ServersSilent"
	// ReasonPodsFailing: pods failed; each is re-created after a pause that doubles.
	ReasonPodsFailing = "PodsFailing"
	// ReasonFailureDomainMissing: pods lack the label that spec.topologyKey names, so each counts as a domain of its
	// own.
	ReasonFailureDomainMissing = "FailureDomainMissing"
	// ReasonTooFewFailureDomains: the servers are in fewer failure domains than replicationFactor needs.
	ReasonTooFewFailureDomains = "TooFewFailureDomains"
	// ReasonUnderReplicated: segments have lacked replicas for longer than 30 s.
	ReasonUnderReplicated = "UnderReplicated"
	// ReasonAsExpected: not Degraded: nothing is broken that the operator knows of.
	ReasonAsExpected = "AsExpected"
	// ReasonFormerClusterNotGone: objects of a deleted cluster of this name still exist; nothing is made before they are
	// deleted.
	ReasonFormerClusterNotGone = "FormerClusterNotGone"
	// ReasonStarting: not everything that is wanted is up yet.
	ReasonStarting = "Starting"
	// ReasonRollingRestart: a restart that was asked for is in progress.
	ReasonRollingRestart = "RollingRestart"
	// ReasonSettled: not Progressing: nothing that was begun is unfinished.
	ReasonSettled = "Settled"
	// ReasonScaleInNotSupported: spec.servers.replicas asks for fewer servers than there are, which would lose data.
	ReasonScaleInNotSupported = "ScaleInNotSupported"
	// ReasonNotBlocked: spec.servers.replicas is followed.
	ReasonNotBlocked = "NotBlocked"
	// ReasonRecoveryRunning: Recovering: other servers read the data of a crashed one.
	ReasonRecoveryRunning = "RecoveryRunning"
	// ReasonRecoveryBlocked: Recovering: replicas are needed that no server which is up, or may come back soon, has.
	ReasonRecoveryBlocked = "RecoveryBlocked"
	// ReasonRecoveryWaitsForMemory: Recovering: the servers that are up have less free memory than the data needs. What fits is
	// served.
	ReasonRecoveryWaitsForMemory = "RecoveryWaitsForMemory"
	// ReasonNoRecovery: not Recovering: no crashed server has tablets that are not served again.
	ReasonNoRecovery = "NoRecovery"
	// ReasonVolumesGrowing: Resizing: the message says of each volume what it waits for.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonMemoryResizing: Resizing: the message says how many servers have the memory that spec asks for, and what each of
	// the others waits for.
	ReasonMemoryResizing = "MemoryResizing"
	// ReasonResizeInfeasible: a volume will not have the size that spec asks for, or a server will not have the memory before
	// it is restarted: the API server, the storage driver, the kubelet or the server refuses.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonVolumesAsWanted: not Resizing: every volume has the size that spec asks for.
	ReasonVolumesAsWanted = "VolumesAsWanted"
	// ReasonMemoryAsWanted: not Resizing: every server has the memory that spec asks for.
	ReasonMemoryAsWanted = "MemoryAsWanted"
	// ReasonUpToDate: every pod is made from what this operator makes of spec.
	ReasonUpToDate = "UpToDate"
	// ReasonRollPending: the spec or the operator is newer than the pods; ask for a roll.
	ReasonRollPending = "RollPending"
	// ReasonRolling: UpToDate: a roll that was asked for is in progress.
	ReasonRolling = "Rolling"
	// ReasonRollRefused: the roll would let versions run together that must not.
	ReasonRollRefused = "RollRefused"
	// ReasonPaused: spec.paused is set.
	ReasonPaused = "Paused"
	// ReasonNotPaused: the operator manages the cluster.
	ReasonNotPaused = "NotPaused"
	// ReasonDeprecatedFieldsUsed: spec has old fields or values; write what the message says. An earlier version may
	// have filled them in.
	ReasonDeprecatedFieldsUsed = "DeprecatedFieldsUsed"
	// ReasonNoDeprecatedFields: spec has only fields and values of this version.
	ReasonNoDeprecatedFields = "NoDeprecatedFields"
)
