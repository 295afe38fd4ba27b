package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RAMCloudRecoverySpec says which recovery of which cluster this is. The operator writes it; nothing follows from it.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="spec of a RAMCloudRecovery does not change: it is a record of what the coordinator does; ramcloud recovery list shows the recoveries that it knows"
type RAMCloudRecoverySpec struct {
	// Name of the RAMCloudCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ClusterName string `json:"clusterName,omitempty"`
	// The coordinator's id of the recovery.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	ID string `json:"id,omitempty"`
}

// The states of a recovery, as the coordinator names them. A later coordinator may know others.
const (
	RecoveryDetected  = "DETECTED"
	RecoveryPlanning  = "PLANNING"
	RecoveryReplaying = "REPLAYING"
	RecoveryWaiting   = "WAITING"
	RecoveryBlocked   = "BLOCKED"
	RecoveryDone      = "DONE"
)

// The outcomes of a recovery that is done.
const (
	OutcomeComplete     = "COMPLETE"
	OutcomeTailLost     = "TAIL_LOST"
	OutcomeLossAccepted = "LOSS_ACCEPTED"
)

// RAMCloudRecoveryStatus is what the coordinator says of the recovery: what `ramcloud recovery show -o json` prints, in camel
// case.
type RAMCloudRecoveryStatus struct {
	// The coordinator's id of the recovery.
	// +optional
	ID string `json:"id,omitempty"`
	// Id of the server that crashed.
	// +optional
	ServerID string `json:"serverId,omitempty"`
	// Its name, which is that of its pod.
	// +optional
	ServerName string `json:"serverName,omitempty"`
	// DETECTED, PLANNING (the log is looked for), REPLAYING, WAITING, BLOCKED (nobody can be expected to bring what is missing)
	// or DONE.
	// +optional
	State string `json:"state,omitempty"`
	// COMPLETE, TAIL_LOST (power cuts took from all replicas what was written last) or LOSS_ACCEPTED (somebody gave up what was
	// missing). Empty until the recovery is done, or if the coordinator does not tell.
	// +optional
	Outcome string `json:"outcome,omitempty"`
	// Why the server was taken for dead.
	// +optional
	Reason string `json:"reason,omitempty"`
	// What the recovery waits for. Empty: it goes on.
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
	// Attempts that were begun. An attempt in which a recovery master fails is followed by another.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// Unix time of the server's last answer, in ms.
	// +optional
	CrashedAtMs int64 `json:"crashedAtMs,omitempty"`
	// When the steps of the recovery were reached.
	// +optional
	TimelineMs RecoveryTimeline `json:"timelineMs,omitzero"`
	// Bytes of the server's log.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Bytes of it that were replayed.
	// +optional
	BytesReplayed int64 `json:"bytesReplayed,omitempty"`
	// Objects that recovery masters have.
	// +optional
	Entries int64 `json:"entries,omitempty"`
	// Partitions into which the server's tablets were divided. At most 32 are listed.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Partitions []RecoveryPartition `json:"partitions,omitempty"`
	// Partitions, in all.
	// +optional
	PartitionsTotal int32 `json:"partitionsTotal,omitempty"`
	// Partitions that are served again.
	// +optional
	PartitionsDone int32 `json:"partitionsDone,omitempty"`
	// Segments of the log that are needed, and that no server which answers has. At most 32 are listed.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	BlockedSegments []BlockedSegment `json:"blockedSegments,omitempty"`
	// Memory that the data needs, and that there is.
	// +optional
	Memory RecoveryMemory `json:"memory,omitzero"`
	// The same for people.
	// +optional
	Summary RecoverySummary `json:"summary,omitzero"`
}

// RecoveryTimeline has times in ms since the server's last answer. A step that was not reached has none.
type RecoveryTimeline struct {
	// The server was taken for dead.
	// +optional
	Verdict *int64 `json:"verdict,omitempty"`
	// The end of its log was found.
	// +optional
	Queried *int64 `json:"queried,omitempty"`
	// Its tablets were divided among recovery masters.
	// +optional
	Planned *int64 `json:"planned,omitempty"`
	// The first tablet was served again.
	// +optional
	FirstKey *int64 `json:"firstKey,omitempty"`
	// Half of the tablets were.
	// +optional
	Half *int64 `json:"half,omitempty"`
	// All were.
	// +optional
	Served *int64 `json:"served,omitempty"`
	// Everything that was recovered had all replicas.
	// +optional
	Replicated *int64 `json:"replicated,omitempty"`
}

// RecoveryPartition is what one recovery master recovers.
type RecoveryPartition struct {
	// Number of the partition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	ID string `json:"id,omitempty"`
	// Id of the server that recovers it.
	// +optional
	RecoveryMaster string `json:"recoveryMaster,omitempty"`
	// State of the partition, as the coordinator names it.
	// +optional
	State string `json:"state,omitempty"`
	// Bytes of the log that are in it.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
}

// BlockedSegment is a segment that is needed.
type BlockedSegment struct {
	// Id of the segment, or "unknown".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	Segment string `json:"segment,omitempty"`
	// Servers that had it last: name or id.
	// +optional
	// +listType=atomic
	LastHolders []string `json:"lastHolders,omitempty"`
}

// RecoveryMemory is the arithmetic of memory.
type RecoveryMemory struct {
	// Bytes that the data needs.
	// +optional
	NeededBytes int64 `json:"neededBytes,omitempty"`
	// Bytes that are free on servers that are up.
	// +optional
	FreeBytes int64 `json:"freeBytes,omitempty"`
}

// RecoverySummary is for people, and computed from the rest.
type RecoverySummary struct {
	// When the server crashed.
	// +optional
	CrashedAt metav1.Time `json:"crashedAt,omitzero"`
	// From the verdict until everything was served again, for example "812ms".
	// +optional
	Served string `json:"served,omitempty"`
	// Size of the log.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}

// RAMCloudRecovery is the record of one recovery: how the data of a crashed server came back. The operator writes it from what
// the coordinator tells, and nothing depends on it: it may be deleted. spec.recoveryHistoryLimit of the cluster says how many
// are kept.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ramcloudrecoveries,shortName=rcr,categories=ramcloud
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.status.serverName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.status.outcome`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.summary.size`
// +kubebuilder:printcolumn:name="Served after",type=string,JSONPath=`.status.summary.served`,description="from the verdict until everything was served again"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.status.summary.crashedAt`,description="since the crash"
// +kubebuilder:printcolumn:name="Detected ms",type=integer,JSONPath=`.status.timelineMs.verdict`,priority=1
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.status.partitionsTotal`,priority=1
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Waits for",type=string,JSONPath=`.status.waitsFor`
type RAMCloudRecovery struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +required
	Spec RAMCloudRecoverySpec `json:"spec,omitzero"`
	// +optional
	Status RAMCloudRecoveryStatus `json:"status,omitzero"`
}

// RAMCloudRecoveryList is a list of recoveries.
//
// +kubebuilder:object:root=true
type RAMCloudRecoveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RAMCloudRecovery `json:"items"`
}
