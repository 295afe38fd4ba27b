package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RAMCloudClusterStatus is the observed state of a cluster. Everything about servers, tables and data comes
// from the coordinator's admin API; the operator infers none of it from pods.
type RAMCloudClusterStatus struct {
	// Conditions of the types Ready, Progressing, Degraded, ScaleBlocked, ConsistentIdentity, Recovering, Resizing,
	// UpToDate, Paused and DeprecatedFields.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The metadata.generation that the operator read last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// What the coordinator reports about itself.
	// +optional
	Coordinator CoordinatorStatus `json:"coordinator,omitzero"`
	// How many servers exist, and in which state they are.
	// +optional
	Servers ServersStatus `json:"servers,omitzero"`
	// Summary of the data, from the coordinator's last report.
	// +optional
	Data DataStatus `json:"data,omitzero"`
	// State of the etcd that the operator runs. Empty if it runs none.
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
	// For each component, the template of new pods, and the template that a rolling restart would apply.
	// +optional
	// +listType=map
	// +listMapKey=component
	Revisions []RevisionStatus `json:"revisions,omitempty"`
	// Label selector of the servers' pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// CoordinatorStatus is what the coordinator reports about itself.
type CoordinatorStatus struct {
	// Identity of the cluster, which is also stored on every volume. The operator records it once. If a coordinator with
	// another identity answers later, the operator changes nothing (condition ConsistentIdentity).
	// +optional
	ClusterUUID string `json:"clusterUUID,omitempty"`
	// Version of the leading coordinator.
	// +optional
	Version string `json:"version,omitempty"`
	// Number of the leader's term. It rises with each new leader.
	// +optional
	Term int64 `json:"term,omitempty"`
	// Number of coordinators that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// Number of coordinators whose pods are ready.
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
	// Number of members that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// Number of members whose pods are ready.
	// +optional
	Ready int32 `json:"ready"`
	// True once all members were ready at the same time. From then on, the operator does not simply start a member with an
	// empty volume if its volume was lost: a member that forgot its votes can make the majority lose committed entries.
	// +optional
	Formed bool `json:"formed,omitempty"`
	// TLS of the connections to the etcd. Off: no TLS. Offered: members accept connections with and without TLS. Used:
	// coordinators connect with TLS. Required: only connections with TLS, and with certificates on both sides. An etcd
	// that an earlier operator created begins with Off. After a request for a restart (spec.update.restartRequest) the
	// operator changes it to Offered, then Used, then Required.
	// +optional
	// +kubebuilder:validation:Enum=Off;Offered;Used;Required
	TLS string `json:"tls,omitempty"`
	// The last failures of the members' pods.
	// +optional
	// +listType=map
	// +listMapKey=pod
	LastFailures []MemberFailure `json:"lastFailures,omitempty"`
}

// ResizingStatus counts volumes and servers that cannot get the size that spec asks for. The condition Resizing says why.
type ResizingStatus struct {
	// Number of volumes that cannot grow to the size that spec asks for. While it is not 0, smaller sizes are accepted in
	// spec.
	// +optional
	VolumesInfeasible int32 `json:"volumesInfeasible,omitempty"`
	// Number of servers that must be restarted to get the memory that spec asks for.
	// +optional
	ServersInfeasible int32 `json:"serversInfeasible,omitempty"`
}

// MemberFailure is the last failure of the pod of a coordinator or of an etcd member.
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
	// Differences, each with the old and the new value.
	// +optional
	// +listType=atomic
	Differs []string `json:"differs,omitempty"`
	// Why the pod is not restarted now, and what to do.
	// +optional
	Waits string `json:"waits,omitempty"`
}

// RevisionStatus names the ControllerRevisions that have the templates of a component's pods.
type RevisionStatus struct {
	// Component: etcd, coordinator or server.
	// +required
	// +kubebuilder:validation:MinLength=1
	Component string `json:"component,omitempty"`
	// Name of the ControllerRevision with the template of new pods.
	// +optional
	Current string `json:"current,omitempty"`
	// Name of the ControllerRevision that a rolling restart would apply. Empty: a rolling restart would not change the
	// template.
	// +optional
	Pending string `json:"pending,omitempty"`
}

// ServersStatus counts servers.
type ServersStatus struct {
	// Number of servers that exist, as RAMCloudServer objects.
	// +optional
	Replicas int32 `json:"replicas"`
	// Number of servers that the coordinator lists as up.
	// +optional
	Ready int32 `json:"ready"`
	// Numbers of ready and of existing servers, as text for people. For example 2/3.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Number of crashed servers in the coordinator's list. A server that restarts after a crash gets a new id. Its earlier
	// id counts here as long as the coordinator lists it.
	// +optional
	Crashed int32 `json:"crashed,omitempty"`
	// Why no server may be evicted now, for example by kubectl drain. Empty: one server may be evicted.
	// +optional
	EvictionsHeld string `json:"evictionsHeld,omitempty"`
	// Number of servers whose pod differs from what spec asks for. They are restarted only when spec.update.restartRequest
	// asks for it.
	// +optional
	PendingRestart int32 `json:"pendingRestart,omitempty"`
}

// DataState says whether all data can be read.
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
	// Number of tables.
	// +optional
	Tables int32 `json:"tables,omitempty"`
	// Number of tablets of all tables.
	// +optional
	Tablets int32 `json:"tablets,omitempty"`
	// Number of tablets that are not served.
	// +optional
	TabletsUnavailable int32 `json:"tabletsUnavailable,omitempty"`
	// Number of objects in all tables.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Log memory in use, summed over the servers that are up.
	// +optional
	MemoryUsed *resource.Quantity `json:"memoryUsed,omitempty"`
	// Part of memoryUsed that live objects take. The rest belongs to overwritten and deleted objects. The cleaner frees it
	// when memory is short.
	// +optional
	MemoryLive *resource.Quantity `json:"memoryLive,omitempty"`
	// Size of the log memory, summed over the servers that are up.
	// +optional
	MemoryTotal *resource.Quantity `json:"memoryTotal,omitempty"`
	// If this many servers crash at the same time, whichever they are, all data is served again without manual work. Not
	// set if it is 0, or if the coordinator does not report it.
	// +optional
	SurvivesServers *int32 `json:"survivesServers,omitempty"`
	// Replication of all servers' logs.
	// +optional
	Replication ReplicationStatus `json:"replication,omitzero"`
}

// ReplicationStatus sums the replication of all servers' logs.
type ReplicationStatus struct {
	// Replication factor that the masters report; the largest one if they differ. Not set before a master has reported it.
	// +optional
	Factor int32 `json:"factor,omitempty"`
	// Number of segments of all logs.
	// +optional
	Segments int64 `json:"segments,omitempty"`
	// Number of segments with all replicas.
	// +optional
	FullyReplicated int64 `json:"fullyReplicated,omitempty"`
	// Number of segments that lack replicas.
	// +optional
	UnderReplicated int64 `json:"underReplicated,omitempty"`
}

// PodFailure describes a failed pod. Kubernetes does not restart such a pod; the operator re-creates it.
type PodFailure struct {
	// Reason, as Kubernetes reports it.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message, as Kubernetes reports it.
	// +optional
	Message string `json:"message,omitempty"`
	// When the pod failed.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// Number of failures in a row. The delay before the pod is re-created doubles with each failure.
	// +optional
	Count int32 `json:"count,omitempty"`
}

// Condition types of a RAMCloudCluster; a RAMCloudServer has Ready. Only internal/status sets them.
const (
	// ConditionReady: the coordinator answers; every server, coordinator and member of etcd that spec asks for is up; every
	// tablet is served. Unknown: this operator has not reached the coordinator since it started.
	ConditionReady = "Ready"
	// ConditionProgressing: something that spec asks for is not up yet, a restart is in progress, or objects of a deleted
	// cluster of this name still exist.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something is broken, and it is not just a pod that is still starting. The message names all
	// problems, the worst first; the reason is that of the worst.
	ConditionDegraded = "Degraded"
	// ConditionScaleBlocked: the operator does not apply spec.servers.replicas, because data would be lost.
	ConditionScaleBlocked = "ScaleBlocked"
	// ConditionConsistentIdentity: the coordinator that answers has the identity that is recorded in
	// status.coordinator.clusterUUID.
	ConditionConsistentIdentity = "ConsistentIdentity"
	// ConditionRecovering: a server crashed, and other servers read its data from replicas. The message has their progress,
	// and what the recovery waits for.
	ConditionRecovering = "Recovering"
	// ConditionResizing: volumes are growing to the size that spec asks for, or the memory of running servers is being
	// changed. A cluster whose sizes were never changed does not have this condition.
	ConditionResizing = "Resizing"
	// ConditionUpToDate: every pod has the template that this operator computes from spec. If False, the message says
	// which pods differ. The operator restarts them only when spec.update.restartRequest asks for it.
	ConditionUpToDate = "UpToDate"
	// ConditionPaused: spec.paused is true, and the operator changes nothing.
	ConditionPaused = "Paused"
	// ConditionDeprecatedFields: spec has fields or values that the next minor version refuses. The message says what to
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
	// ReasonServersNotUp: the coordinator does not list every server that spec asks for as up.
	ReasonServersNotUp = "ServersNotUp"
	// ReasonCoordinatorsDown: pods of coordinators are not ready. The cluster works while one coordinator is leader.
	ReasonCoordinatorsDown = "CoordinatorsDown"
	// ReasonEtcdMembersDown: pods of etcd members are not ready. Without a majority of members the coordinator cannot change
	// metadata: no table can be created or dropped, and no crashed server is recovered.
	ReasonEtcdMembersDown = "EtcdMembersDown"
	// ReasonTabletsUnavailable: a part of the data cannot be read.
	ReasonTabletsUnavailable = "TabletsUnavailable"
	// ReasonIdentityChanged: the coordinator that answers belongs to another cluster than status.coordinator.clusterUUID; the
	// operator changes nothing.
	ReasonIdentityChanged = "IdentityChanged"
	// ReasonIdentityPinned: the coordinator that answered last has the identity in status.coordinator.clusterUUID.
	ReasonIdentityPinned = "IdentityPinned"
	// ReasonIdentityNotKnown: the coordinator has never answered, so no identity is recorded.
	ReasonIdentityNotKnown = "IdentityNotKnown"
	// ReasonVolumeNotOurs: this cluster needs a volume claim, and a claim with the same name belongs to something else.
	ReasonVolumeNotOurs = "VolumeNotOurs"
	// ReasonNetworkNotSupported: spec.network has a value that is not supported yet; no pods are created.
	ReasonNetworkNotSupported = "NetworkNotSupported"
	// ReasonMetadataVolumeLost: a volume with metadata is lost. The operator does not replace it with an empty one,
	// because that would begin another cluster, without the data.
	ReasonMetadataVolumeLost = "MetadataVolumeLost"
	// ReasonVolumeTerminating: somebody deleted a server's volume claim. The claim is kept until the coordinator says that
	// no replica on its volume is needed.
	ReasonVolumeTerminating = "VolumeTerminating"
	// ReasonVolumeLost: the volume of a server's claim is lost. The claim is kept until the coordinator says that no
	// replica on the volume is needed. Or: the claim does not exist, and the coordinator still lists the server as up.
	ReasonVolumeLost = "VolumeLost"
	// ReasonReconcileFailed: a step of the operator failed; the message has the error. The operator retries.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonServersSilent: too few servers answer the coordinator, or it cannot write metadata. It cannot decide which
	// servers crashed, so it marks none as crashed until this ends. The message says what it waits for.
	ReasonServersSilent = "ServersSilent"
	// ReasonPodsFailing: pods failed. Each is re-created after a wait, which doubles with each failure in a row.
	ReasonPodsFailing = "PodsFailing"
	// ReasonFailureDomainMissing: pods lack the label that spec.topologyKey names, so each of these servers counts as a
	// failure domain of its own.
	ReasonFailureDomainMissing = "FailureDomainMissing"
	// ReasonTooFewFailureDomains: the servers are in fewer failure domains than replicationFactor needs.
	ReasonTooFewFailureDomains = "TooFewFailureDomains"
	// ReasonUnderReplicated: segments have had fewer replicas than the replication factor for longer than 30 s.
	ReasonUnderReplicated = "UnderReplicated"
	// ReasonAsExpected: not Degraded: the operator knows of no problem.
	ReasonAsExpected = "AsExpected"
	// ReasonFormerClusterNotGone: objects of a deleted cluster of this name still exist. The operator creates nothing before
	// they are deleted.
	ReasonFormerClusterNotGone = "FormerClusterNotGone"
	// ReasonStarting: not everything that spec asks for is up yet.
	ReasonStarting = "Starting"
	// ReasonRollingRestart: a restart that was asked for is in progress.
	ReasonRollingRestart = "RollingRestart"
	// ReasonSettled: not Progressing: everything that spec asks for is up, and no restart is in progress.
	ReasonSettled = "Settled"
	// ReasonScaleInNotSupported: spec.servers.replicas is less than the number of servers, or less than replicationFactor
	// needs. The operator removes no server, because its data would be lost.
	ReasonScaleInNotSupported = "ScaleInNotSupported"
	// ReasonNotBlocked: not ScaleBlocked: the operator applies spec.servers.replicas.
	ReasonNotBlocked = "NotBlocked"
	// ReasonRecoveryRunning: Recovering: other servers read the data of a crashed server from replicas.
	ReasonRecoveryRunning = "RecoveryRunning"
	// ReasonRecoveryBlocked: Recovering: something that the recovery needs is missing, and no server that may have it is
	// expected back. The recovery continues by itself when the missing part comes back. The message says what is missing.
	ReasonRecoveryBlocked = "RecoveryBlocked"
	// ReasonRecoveryWaitsForMemory: Recovering: the servers that are up have less free memory than the data needs. The part
	// that fits is served.
	ReasonRecoveryWaitsForMemory = "RecoveryWaitsForMemory"
	// ReasonNoRecovery: not Recovering: all tablets of crashed servers are served again.
	ReasonNoRecovery = "NoRecovery"
	// ReasonVolumesGrowing: Resizing: the message says of each volume what it waits for.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonMemoryResizing: Resizing: the memory of running servers is being changed. The message says how many have the size
	// that spec asks for, and what each of the others waits for.
	ReasonMemoryResizing = "MemoryResizing"
	// ReasonResizeInfeasible: a volume cannot get the size that spec asks for, or a server cannot get the memory without a
	// restart: the API server, the storage driver, the kubelet or the server refused. The message says which and why.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonVolumesAsWanted: not Resizing: every volume has the size that spec asks for.
	ReasonVolumesAsWanted = "VolumesAsWanted"
	// ReasonMemoryAsWanted: not Resizing: every server has the memory that spec asks for.
	ReasonMemoryAsWanted = "MemoryAsWanted"
	// ReasonUpToDate: every pod has the template that this operator computes from spec.
	ReasonUpToDate = "UpToDate"
	// ReasonRollPending: not UpToDate: spec or the operator is newer than the pods. Set spec.update.restartRequest to a new
	// text to ask for a rolling restart.
	ReasonRollPending = "RollPending"
	// ReasonRolling: not UpToDate: a rolling restart that was asked for is in progress.
	ReasonRolling = "Rolling"
	// ReasonRollRefused: not UpToDate: the operator does not apply the requested restart or change, because incompatible
	// versions would run at the same time. The message names them.
	ReasonRollRefused = "RollRefused"
	// ReasonPaused: spec.paused is true: the operator changes nothing.
	ReasonPaused = "Paused"
	// ReasonNotPaused: the operator manages the cluster.
	ReasonNotPaused = "NotPaused"
	// ReasonDeprecatedFieldsUsed: spec has old fields or values, which an earlier version may have filled in. Write what the
	// message says instead.
	ReasonDeprecatedFieldsUsed = "DeprecatedFieldsUsed"
	// ReasonNoDeprecatedFields: spec has only fields and values of this version.
	ReasonNoDeprecatedFields = "NoDeprecatedFields"
)
