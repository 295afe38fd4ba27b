package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// HugePages is the size of the memory pages of a server's log. (none is the spelling of earlier versions.)
// +kubebuilder:validation:Enum=None;2Mi;1Gi;none
type HugePages string

// The sizes.
const (
	HugePagesNone HugePages = "None"
	HugePages2Mi  HugePages = "2Mi"
	HugePages1Gi  HugePages = "1Gi"
)

// VolumeMode is how a server uses its volume.
// +kubebuilder:validation:Enum=Filesystem;Block
type VolumeMode string

// The modes.
const (
	VolumeModeFilesystem VolumeMode = "Filesystem"
	VolumeModeBlock      VolumeMode = "Block"
)

// CleaningMode says how a server reclaims the memory of overwritten and deleted objects.
// +kubebuilder:validation:Enum=Off;OneLevel;TwoLevel
type CleaningMode string

// The modes.
const (
	// CleaningOff: memory is never reclaimed.
	CleaningOff CleaningMode = "Off"
	// CleaningOneLevel: memory and disks are cleaned together.
	CleaningOneLevel CleaningMode = "OneLevel"
	// CleaningTwoLevel: memory is compacted alone, without writing to disks; disks are cleaned less often, when they need it.
	CleaningTwoLevel CleaningMode = "TwoLevel"
)

// ServersSpec describes the servers. (An earlier version accepted memory limits that are too low. Such a limit is
// accepted as long as it and hashTableFraction stay the same and memory.log does not grow, so that other fields can be
// changed.)
//
// +kubebuilder:validation:XValidation:rule="!(has(self.cpu) && has(self.resources))",fieldPath=".resources",reason=FieldValueInvalid,message="spec.servers has both cpu and resources; accepted: cpu (whole cores, memory is derived) or resources (all of it by you)"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || !has(self.memory.log) || quantity(string(self.resources.limits['memory'])).asApproximateFloat() >= quantity(string(self.memory.log)).asApproximateFloat() * (1.0 + (has(self.memory.hashTableFraction) ? quantity(string(self.memory.hashTableFraction)).asApproximateFloat() : 0.125)) + 201326592.0",optionalOldSelf=true,fieldPath=".resources.limits.memory",reason=FieldValueInvalid,messageExpression="'spec.servers.resources.limits.memory is %s and servers.memory.log is %s: the log, its hash table and 192Mi would not fit; accepted: at least %dMi, or leave resources out'.format([self.resources.limits['memory'], self.memory.log, int((quantity(string(self.memory.log)).asApproximateFloat() * (1.0 + (has(self.memory.hashTableFraction) ? quantity(string(self.memory.hashTableFraction)).asApproximateFloat() : 0.125)) + 201326592.0 + 1048575.0) / 1048576.0)])"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || !has(self.memory.log) || quantity(string(self.resources.limits['memory'])).asApproximateFloat() >= quantity(string(self.memory.log)).asApproximateFloat() * (1.0 + (has(self.memory.hashTableFraction) ? quantity(string(self.memory.hashTableFraction)).asApproximateFloat() : 0.125)) + 201326592.0 || (has(oldSelf.resources) && has(oldSelf.resources.limits) && 'memory' in oldSelf.resources.limits && string(oldSelf.resources.limits['memory']) == string(self.resources.limits['memory']) && has(oldSelf.memory.hashTableFraction) && has(self.memory.hashTableFraction) && string(oldSelf.memory.hashTableFraction) == string(self.memory.hashTableFraction) && has(oldSelf.memory.log) && !quantity(string(self.memory.log)).isGreaterThan(quantity(string(oldSelf.memory.log))))",fieldPath=".resources.limits.memory",reason=FieldValueInvalid,messageExpression="'spec.servers.resources.limits.memory is %s and servers.memory.log is %s: the log, its hash table and 192Mi would not fit; accepted: at least %dMi, or leave resources out'.format([self.resources.limits['memory'], self.memory.log, int((quantity(string(self.memory.log)).asApproximateFloat() * (1.0 + (has(self.memory.hashTableFraction) ? quantity(string(self.memory.hashTableFraction)).asApproximateFloat() : 0.125)) + 201326592.0 + 1048575.0) / 1048576.0)])"
// +kubebuilder:validation:XValidation:rule="!has(self.hugePages) || self.hugePages in ['None', 'none'] || !has(self.resources)",fieldPath=".resources",reason=FieldValueInvalid,messageExpression="'spec.servers has both hugePages (%s) and resources; accepted: hugePages with cpu (memory is derived) or resources without hugePages'.format([self.hugePages])"
// +kubebuilder:validation:XValidation:rule="!has(self.hugePages) || self.hugePages in ['None', 'none'] || !has(self.memory) || !has(self.memory.log) || quantity(string(self.memory.log)).asInteger() % (self.hugePages == '1Gi' ? 1073741824 : 2097152) == 0",fieldPath=".memory.log",reason=FieldValueInvalid,messageExpression="'spec.servers.memory.log is %s and spec.servers.hugePages is %s; accepted: a multiple of %s'.format([self.memory.log, self.hugePages, self.hugePages])"
type ServersSpec struct {
	// Number of servers. The operator removes no server, because tablets and replicas cannot be moved yet. If the number
	// is below that of the existing servers, it only sets the condition ScaleBlocked.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// Memory for data.
	// +optional
	// +kubebuilder:default={}
	Memory MemorySpec `json:"memory,omitzero"`

	// Memory pages of the log. None: ordinary pages, or transparent huge pages if the kernel offers them. 2Mi or 1Gi: huge
	// pages that are reserved on the nodes; pods request them as hugepages-2Mi or hugepages-1Gi.
	// +optional
	// +kubebuilder:default=None
	HugePages HugePages `json:"hugePages,omitempty"`

	// How the memory of overwritten and deleted objects is reclaimed.
	// +optional
	Cleaning CleaningSpec `json:"cleaning,omitzero"`

	// How the data of dead servers is recovered.
	// +optional
	Recovery ServerRecoverySpec `json:"recovery,omitzero"`

	// Whole cores for each server. If not set: 50m requested, no limit.
	// +optional
	CPU *CPUSpec `json:"cpu,omitempty"`

	// Compute resources of each server. They replace cpu, and the memory request that the operator computes from log, hash
	// table and buffers.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Volume of each server, for replicas of other servers' data.
	// +optional
	// +kubebuilder:default={}
	BackupStorage BackupStorageSpec `json:"backupStorage,omitzero"`

	// Additions to the servers' pods.
	// +optional
	Template ServerTemplate `json:"template,omitzero"`
}

// MemorySpec sizes a server's memory.
type MemorySpec struct {
	// Memory of the log, which has the objects. If Kubernetes can change the memory of running pods, a new size is applied
	// without a restart, to one server after the other. Otherwise a server gets it when it is restarted (condition
	// Resizing).
	// +optional
	// +kubebuilder:default="256Mi"
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('64Mi')) && quantity(string(self)).isInteger()",reason=FieldValueInvalid,messageExpression="'spec.servers.memory.log is %s; accepted: a whole number of bytes, at least 64Mi (8 segments)'.format([self])"
	Log *resource.Quantity `json:"log,omitempty"`

	// Memory of the hash table, as a fraction of memory.log.
	// +optional
	// +kubebuilder:default="0.125"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1'))",reason=FieldValueInvalid,messageExpression="'spec.servers.memory.hashTableFraction is %s; accepted: more than 0 and at most 1, for example 125m'.format([self])"
	HashTableFraction *resource.Quantity `json:"hashTableFraction,omitempty"`
}

// CleaningSpec says how a server reclaims memory.
type CleaningSpec struct {
	// Off: memory is never reclaimed. Every write and delete uses up log memory, and when the log is full, writes fail
	// with OUT_OF_MEMORY. OneLevel: memory and disks are cleaned together. TwoLevel: memory is compacted alone, which
	// writes nothing to disks; disks are cleaned when they need it. If not set: the default of the servers' image, which
	// is OneLevel.
	// +optional
	Mode CleaningMode `json:"mode,omitempty"`
}

// ServerRecoverySpec says how a server recovers data of dead servers.
type ServerRecoverySpec struct {
	// Most bytes of dead servers' logs that one server replays in a second, for example 200Mi. A limit leaves bandwidth to
	// clients, and recoveries take longer. If not set: no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('64Ti')) && quantity(string(self)).isInteger()",reason=FieldValueInvalid,messageExpression="'spec.servers.recovery.bandwidth is %s; accepted: a whole number of bytes a second from 1Mi to 64Ti, or leave it out'.format([self])"
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty"`
}

// CPUSpec gives a server whole cores.
//
// +kubebuilder:validation:XValidation:rule="self.reactors >= 1 && self.reactors <= self.cores && self.reactors <= 64",fieldPath=".reactors",reason=FieldValueInvalid,messageExpression="'spec.servers.cpu.reactors is %d and spec.servers.cpu.cores is %d: each reactor polls for requests and needs a core; accepted: 1 to the number of cores, at most 64'.format([self.reactors, self.cores])"
type CPUSpec struct {
	// Number of cores requested. Each reactor uses up to one core. Syncing, metrics and the kernel use a part of another core.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Cores int32 `json:"cores,omitempty"`
	// If true, limits equal requests. So the pod's quality of service is Guaranteed, and a kubelet with the static CPU manager
	// gives it exclusive cores.
	// +optional
	Guaranteed bool `json:"guaranteed,omitempty"`
	// Number of threads that serve data. Each polls for its own requests.
	// +optional
	// +kubebuilder:default=1
	Reactors int32 `json:"reactors,omitempty"`
	// Number of threads that clean, besides the reactors. They sleep while there is nothing to clean, and otherwise use
	// the CPU time that the reactors leave. 0: the first reactor cleans between its other work. If not set: the default of
	// the servers' image, which is 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 16",reason=FieldValueInvalid,messageExpression="'spec.servers.cpu.cleaners is %d; accepted: 0 to 16, or leave it out'.format([self])"
	Cleaners *int32 `json:"cleaners,omitempty"`
}

// BackupStorageSpec describes a server's volume.
//
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMode) || !has(oldSelf.volumeMode) || self.volumeMode == oldSelf.volumeMode",fieldPath=".volumeMode",reason=FieldValueForbidden,messageExpression="'spec.servers.backupStorage.volumeMode is %s and was %s: the volumes that there are cannot be used in another way; accepted: %s'.format([self.volumeMode, oldSelf.volumeMode, oldSelf.volumeMode])"
type BackupStorageSpec struct {
	StorageSpec `json:",inline"`
	// Filesystem: a file system with one large file in it. Block: a raw device, used for nothing else. For Block, the
	// container runtime must give the device to the pod's user, because servers do not run as root (for containerd:
	// device_ownership_from_security_context).
	// +optional
	// +kubebuilder:default=Filesystem
	VolumeMode VolumeMode `json:"volumeMode,omitempty"`
}

// ServerTemplate has additions to a server's pod.
type ServerTemplate struct {
	// Labels and annotations that are added to the pods. They cannot replace the operator's own labels.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// Labels that a node must have.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Tolerations of the pods, besides those that the operator sets.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Topology spread constraints of the pods. A constraint without a label selector gets one that selects the cluster's
	// servers. Default: the servers are spread over nodes where possible.
	// +optional
	// +listType=atomic
	TopologySpread []corev1.TopologySpreadConstraint `json:"topologySpread,omitempty"`
	// Priority class of the pods. By it Kubernetes decides which pods it evicts when a node has too few resources.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}
