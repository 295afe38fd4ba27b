package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RAMCloudRecoverySpec says which recovery of which cluster this is. The operator writes it as a record. It starts
// nothing.
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
	OutcomeAllLost      = "ALL_LOST"
)

// RAMCloudRecoveryStatus is what the coordinator reports about the recovery. It has the fields that `ramcloud recovery show
// -o json` prints, with names in camel case.
type RAMCloudRecoveryStatus struct {
	// The coordinator's id of the recovery.
	// +optional
	ID string `json:"id,omitempty"`
	// Id of the server that crashed.
	// +optional
	ServerID string `json:"serverId,omitempty"`
	// Name of the server that crashed, which is also the name of its pod.
	// +optional
	ServerName string `json:"serverName,omitempty"`
	// State of the recovery: DETECTED, PLANNING (looking for the replicas of the log), REPLAYING, WAITING (see waitsFor),
	// BLOCKED (something that the recovery needs is missing, and no server that may have it is expected back) or DONE.
	// +optional
	State string `json:"state,omitempty"`
	// Outcome of the recovery: COMPLETE, TAIL_LOST (power failures destroyed the last writes on all replicas),
	// LOSS_ACCEPTED (a person accepted the loss of the missing data) or ALL_LOST (the server had no replicas, so its
	// tablets came back empty). Empty before the recovery is done, or if the coordinator does not report it.
	// +optional
	Outcome string `json:"outcome,omitempty"`
	// Why the coordinator decided that the server is dead.
	// +optional
	Reason string `json:"reason,omitempty"`
	// What the recovery waits for. Empty: it does not wait.
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
	// Number of the latest attempt: each has a higher one, with gaps, so it is no count. If a recovery master fails,
	// another attempt follows.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// Time of the server's last answer, as Unix time in milliseconds.
	// +optional
	CrashedAtMs int64 `json:"crashedAtMs,omitempty"`
	// When each step of the recovery was reached.
	// +optional
	TimelineMs RecoveryTimeline `json:"timelineMs,omitzero"`
	// Size of the server's log, in bytes.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Bytes of the log that were replayed.
	// +optional
	BytesReplayed int64 `json:"bytesReplayed,omitempty"`
	// Number of objects that recovery masters have recovered.
	// +optional
	Entries int64 `json:"entries,omitempty"`
	// Partitions into which the server's tablets were divided. At most 32 are listed.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Partitions []RecoveryPartition `json:"partitions,omitempty"`
	// Number of partitions.
	// +optional
	PartitionsTotal int32 `json:"partitionsTotal,omitempty"`
	// Number of partitions that are served again.
	// +optional
	PartitionsDone int32 `json:"partitionsDone,omitempty"`
	// Segments of the log that the recovery needs and that no reachable server has. At most 32 are listed.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	BlockedSegments []BlockedSegment `json:"blockedSegments,omitempty"`
	// Memory that the recovered data needs, and memory that is free.
	// +optional
	Memory RecoveryMemory `json:"memory,omitzero"`
	// Values for display, computed from the other fields.
	// +optional
	Summary RecoverySummary `json:"summary,omitzero"`
}

// RecoveryTimeline has the time of each step, in milliseconds since the server's last answer. A step that was not
// reached has no time.
type RecoveryTimeline struct {
	// The coordinator decided that the server is dead.
	// +optional
	Verdict *int64 `json:"verdict,omitempty"`
	// The end of the server's log was found.
	// +optional
	Queried *int64 `json:"queried,omitempty"`
	// The server's tablets were divided among recovery masters.
	// +optional
	Planned *int64 `json:"planned,omitempty"`
	// The first tablet was served again.
	// +optional
	FirstKey *int64 `json:"firstKey,omitempty"`
	// Half of the hashes of the tablets were served again.
	// +optional
	Half *int64 `json:"half,omitempty"`
	// All tablets were served again.
	// +optional
	Served *int64 `json:"served,omitempty"`
	// The last recovery master had everything, and the recovered data was on backups.
	// +optional
	Replicated *int64 `json:"replicated,omitempty"`
}

// RecoveryPartition is the part of the data that one recovery master recovers.
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
	// Bytes of the log that belong to the partition.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
}

// BlockedSegment is a segment that the recovery needs and that is missing.
type BlockedSegment struct {
	// Id of the segment, or "unknown".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	Segment string `json:"segment,omitempty"`
	// Names or ids of the servers that had the last replicas of the segment.
	// +optional
	// +listType=atomic
	LastHolders []string `json:"lastHolders,omitempty"`
}

// RecoveryMemory compares the memory that the data needs with the memory that is free.
type RecoveryMemory struct {
	// Memory that the data needs, in bytes.
	// +optional
	NeededBytes int64 `json:"neededBytes,omitempty"`
	// Free memory of the servers that are up, in bytes.
	// +optional
	FreeBytes int64 `json:"freeBytes,omitempty"`
}

// RecoverySummary has values for display, computed from the other fields.
type RecoverySummary struct {
	// When the server crashed.
	// +optional
	CrashedAt metav1.Time `json:"crashedAt,omitzero"`
	// Time from the decision that the server is dead until all tablets were served again, for example "812ms".
	// +optional
	Served string `json:"served,omitempty"`
	// Size of the server's log.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}

// RAMCloudRecovery is the record of one recovery of the data of a crashed server. The operator writes it from
// the coordinator's reports. Nothing depends on it, so it may be deleted. spec.recoveryHistoryLimit of the cluster says how
// many are kept.
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
