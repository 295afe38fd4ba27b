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
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Coordinator CoordinatorStatus `json:"coordinator,omitzero"`
	// +optional
	Servers ServersStatus `json:"servers,omitzero"`
	// +optional
	Data DataStatus `json:"data,omitzero"`
	// The etcd that the operator runs; empty without one.
	// +optional
	Etcd EtcdStatus `json:"etcd,omitzero"`
	// Pods that differ from what spec asks for, what differs, and why they are not restarted now. At most
	// 20 are listed.
	// +optional
	// +listType=map
	// +listMapKey=pod
	PendingRestart []PendingRestart `json:"pendingRestart,omitempty"`
	// What new pods are made from, and what a roll would bring.
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
	// Identity of the cluster, also kept on every volume. Written once; a store with another one stops everything
	// (condition ConsistentIdentity).
	// +optional
	ClusterUUID string `json:"clusterUUID,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Term int64 `json:"term,omitempty"`
	// Coordinators that exist, and those whose pods are ready.
	// +optional
	Replicas int32 `json:"replicas"`
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
	// Members that exist, and those whose pods are ready.
	// +optional
	Replicas int32 `json:"replicas"`
	// +optional
	Ready int32 `json:"ready"`
	// The etcd was complete once: from then on a member whose volume is lost is not re-created with an empty
	// one, because a member that forgot its votes can lose what was agreed on.
	// +optional
	Formed bool `json:"formed,omitempty"`
	// How the etcd is connected to: "Required" is TLS with certificates on both sides, and nothing else. An etcd that an earlier
	// operator made is "Off" until a restart is asked for (spec.update.restartRequest); then it goes through "Offered"
	// (members take both) and "Used" (coordinators connect by TLS) to "Required" by itself.
	// +optional
	// +kubebuilder:validation:Enum=Off;Offered;Used;Required
	TLS string `json:"tls,omitempty"`
	// The last failures of the members' pods.
	// +optional
	// +listType=map
	// +listMapKey=pod
	LastFailures []MemberFailure `json:"lastFailures,omitempty"`
}

// MemberFailure is the last failure of a pod of the coordinators or of etcd.
type MemberFailure struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	Pod string `json:"pod,omitempty"`
	// +optional
	PodFailure `json:",inline"`
}

// PendingRestart is a pod that differs from what spec asks for.
type PendingRestart struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	Pod string `json:"pod,omitempty"`
	// What differs, old and new value.
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
	// New pods are made from it.
	// +optional
	Current string `json:"current,omitempty"`
	// What this operator would make of the same spec; empty: the same. A roll has to be asked for.
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
	// The replication factor in force, as the masters say; the largest where they differ. Left out while no master has
	// said it.
	// +optional
	Factor int32 `json:"factor,omitempty"`
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
	// Failures in a row; the wait before the pod is re-created doubles with each.
	// +optional
	Count int32 `json:"count,omitempty"`
}

// Condition types of a RAMCloudCluster; a RAMCloudServer has Ready. Each is set by internal/status and nobody else.
const (
	// ConditionReady: the coordinator answers, every wanted server, coordinator and member of etcd is up, every tablet is
	// served. Unknown: an operator that has just started cannot reach the coordinator.
	ConditionReady = "Ready"
	// ConditionProgressing: something the operator started is not finished.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something is broken that will not go away by waiting for a start.
	ConditionDegraded = "Degraded"
	// ConditionScaleBlocked: spec.servers.replicas asks for what cannot be done safely.
	ConditionScaleBlocked = "ScaleBlocked"
	// ConditionConsistentIdentity: the store that answers is the one that the cluster was made with.
	ConditionConsistentIdentity = "ConsistentIdentity"
	// ConditionResizing: volumes are growing to the size that spec asks for. A cluster of which no size was changed does
	// not have it.
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
	// ReasonCoordinatorsDown: pods of coordinators are not ready. One that answers is enough to go on.
	ReasonCoordinatorsDown = "CoordinatorsDown"
	// ReasonEtcdMembersDown: pods of etcd members are not ready. Without a majority no table can be made or dropped.
	ReasonEtcdMembersDown = "EtcdMembersDown"
	// ReasonTabletsUnavailable: a part of the data cannot be read.
	ReasonTabletsUnavailable = "TabletsUnavailable"
	// ReasonIdentityChanged: the coordinator that answers leads another cluster than the one that was noted;
	// everything stops.
	ReasonIdentityChanged = "IdentityChanged"
	// ReasonIdentityPinned: the store is the cluster that was noted in status.coordinator.clusterUUID.
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
	// ReasonVolumeLost: the volume behind a server's claim is lost, or the claim does not exist and the server is still
	// listed as up.
	ReasonVolumeLost = "VolumeLost"
	// ReasonReconcileFailed: the operator could not do something that it has to, in the API server's words; it tries
	// again.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonServersSilent: the coordinator hears too few servers to tell who is dead, and condemns none.
	ReasonServersSilent = "ServersSilent"
	// ReasonPodsFailing: Kubernetes gave pods up; each is re-created after a pause that doubles.
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
	// ReasonFormerClusterNotGone: a former cluster of this name is not gone; nothing is made before it is.
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
	// ReasonVolumesGrowing: Resizing: the message says of each volume what it waits for.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonResizeInfeasible: a volume will not have the size that spec asks for: the API server or the storage driver
	// refuses.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonVolumesAsWanted: not Resizing: every volume has the size that spec asks for.
	ReasonVolumesAsWanted = "VolumesAsWanted"
	// ReasonUpToDate: every pod is made from what this operator makes of spec.
	ReasonUpToDate = "UpToDate"
	// ReasonRollPending: pods would be made otherwise now, by a changed spec or by a later operator; a roll has to be asked
	// for.
	ReasonRollPending = "RollPending"
	// ReasonRolling: UpToDate: a roll that was asked for is in progress.
	ReasonRolling = "Rolling"
	// ReasonRollRefused: what was asked for would let versions run together that must not.
	ReasonRollRefused = "RollRefused"
	// ReasonServersNotRestarted: only servers run that were made from former templates; they are not restarted yet.
	ReasonServersNotRestarted = "ServersNotRestarted"
	// ReasonPaused: spec.paused is set.
	ReasonPaused = "Paused"
	// ReasonNotPaused: the operator looks after the cluster.
	ReasonNotPaused = "NotPaused"
	// ReasonDeprecatedFieldsUsed: spec has old fields or values; write what the message says. A former version may have
	// filled them in.
	ReasonDeprecatedFieldsUsed = "DeprecatedFieldsUsed"
	// ReasonNoDeprecatedFields: spec has only fields and values of this version.
	ReasonNoDeprecatedFields = "NoDeprecatedFields"
)
