package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Durability says when a write is acknowledged. (buffered and synced are the spellings of earlier versions.)
// +kubebuilder:validation:Enum=Buffered;Synced;buffered;synced
type Durability string

// The accepted durabilities.
const (
	// DurabilityBuffered: when R other servers have it in the page caches of their operating systems.
	DurabilityBuffered Durability = "Buffered"
	// DurabilitySynced: when R other servers have it on their devices.
	DurabilitySynced Durability = "Synced"
)

// ExposeType says how clients outside Kubernetes reach the cluster.
// +kubebuilder:validation:Enum=None;NodePort;LoadBalancer
type ExposeType string

// The accepted ways to expose a cluster.
const (
	ExposeNone ExposeType = "None"
	// ExposeNodePort: a port of every node for each coordinator and server.
	ExposeNodePort ExposeType = "NodePort"
	// ExposeLoadBalancer: a load balancer for each coordinator and server.
	ExposeLoadBalancer ExposeType = "LoadBalancer"
)

// RetentionPolicy says what happens to the volumes when the cluster is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type RetentionPolicy string

// The accepted retention policies.
const (
	RetentionRetain RetentionPolicy = "Retain"
	RetentionDelete RetentionPolicy = "Delete"
)

// The rules below test has(servers) only because the schema's default for spec is checked before the defaults inside it
// are filled in.

// RAMCloudClusterSpec is the desired state of a cluster. A cluster needs at least replicationFactor + 1 servers. The API
// server checks this when the cluster is created and when replicationFactor changes. It accepts a later change to fewer
// servers. The operator then removes no server, and sets the condition ScaleBlocked.
//
// +kubebuilder:validation:XValidation:rule="!has(self.servers) || self.servers.replicas >= self.replicationFactor + 1 || (oldSelf.hasValue() && oldSelf.value().replicationFactor == self.replicationFactor)",optionalOldSelf=true,fieldPath=".servers.replicas",reason=FieldValueInvalid,messageExpression="'spec.servers.replicas is %d and spec.replicationFactor is %d: every segment needs %d replicas on other servers than its own; accepted: servers.replicas >= %d'.format([self.servers.replicas, self.replicationFactor, self.replicationFactor, self.replicationFactor + 1])"
// +kubebuilder:validation:XValidation:rule="!has(self.servers) || !has(self.servers.backupStorage.size) || quantity(string(self.servers.backupStorage.size)).asInteger() >= 2 * self.replicationFactor * quantity(string(self.servers.memory.log)).asInteger()",fieldPath=".servers.backupStorage.size",reason=FieldValueInvalid,messageExpression="'spec.servers.backupStorage.size is %s: a server keeps replicas of about replicationFactor (%d) times servers.memory.log (%s) and as much again as room to place them; accepted: at least %d bytes, or leave it out'.format([self.servers.backupStorage.size, self.replicationFactor, self.servers.memory.log, 2 * self.replicationFactor * quantity(string(self.servers.memory.log)).asInteger()])"
// +kubebuilder:validation:XValidation:rule="!has(self.coordinator) || self.coordinator.replicas == 1 || (has(self.metadata) && (has(self.metadata.etcd) || has(self.metadata.managedEtcd)))",fieldPath=".coordinator.replicas",reason=FieldValueInvalid,messageExpression="'spec.coordinator.replicas is %d and the metadata is on the volume of one coordinator, which others cannot read; accepted: 1, or 3 with spec.metadata.managedEtcd or spec.metadata.etcd'.format([self.coordinator.replicas])"
// +kubebuilder:validation:XValidation:rule="(has(self.metadata) && has(self.metadata.etcd)) == (has(oldSelf.metadata) && has(oldSelf.metadata.etcd)) && (has(self.metadata) && has(self.metadata.managedEtcd)) == (has(oldSelf.metadata) && has(oldSelf.metadata.managedEtcd))",fieldPath=".metadata",reason=FieldValueForbidden,message="spec.metadata cannot be moved to another kind of store: the metadata would stay behind, and with it the way to the data; accepted: the kind that it was made with"
// +kubebuilder:validation:XValidation:rule="(has(self.failureDomain) && self.failureDomain == 'label') == has(self.failureDomainLabel)",fieldPath=".failureDomainLabel",reason=FieldValueInvalid,messageExpression="'spec.failureDomain is %s and spec.failureDomainLabel is %s, the old names of topologyKey; accepted: topologyKey with the label, for example topology.kubernetes.io/zone'.format([has(self.failureDomain) ? self.failureDomain : 'not set', has(self.failureDomainLabel) ? self.failureDomainLabel : 'not set'])"
// +kubebuilder:validation:XValidation:rule="!has(self.topologyKey) || !has(self.failureDomain) || self.failureDomain == 'server'",fieldPath=".failureDomain",reason=FieldValueInvalid,messageExpression="'spec has both topologyKey (%s) and failureDomain (%s), which is its old name; accepted: topologyKey without failureDomain'.format([self.topologyKey, self.failureDomain])"
// +kubebuilder:validation:XValidation:rule="!(has(self.paused) && has(self.pause))",fieldPath=".pause",reason=FieldValueInvalid,message="spec has both paused and pause, which is its old name; accepted: paused without pause"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.replicationFactor",fieldPath=".minReplicas",reason=FieldValueInvalid,messageExpression="'spec.minReplicas is %d and spec.replicationFactor is %d; accepted: 1 to %d'.format([self.minReplicas, self.replicationFactor, self.replicationFactor])"
type RAMCloudClusterSpec struct {
	// The coordinators. They keep the lists of servers and tables, and take no part in reads and writes.
	// +optional
	// +kubebuilder:default={}
	Coordinator CoordinatorSpec `json:"coordinator,omitzero"`

	// Where the coordinators keep the cluster's metadata. If not set: on the volume of the one coordinator.
	// +optional
	Metadata MetadataSpec `json:"metadata,omitzero"`

	// The servers. Each holds a part of the data in memory, and replicas of other servers' data on its volume.
	// +optional
	// +kubebuilder:default={}
	Servers ServersSpec `json:"servers,omitzero"`

	// Number of replicas of each segment (R). A write is acknowledged when R other servers have it. The field durability
	// says whether it must be on their devices by then.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	ReplicationFactor int32 `json:"replicationFactor,omitempty"`

	// Minimum number of replicas for a write, if fewer than R failure domains are available. With fewer replicas, writes
	// wait. Default: one less than replicationFactor, at least 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// When a write is acknowledged. Buffered: when its replicas are in the page caches of R servers. Synced: when they are
	// on the devices of R servers.
	// +optional
	// +kubebuilder:default=Buffered
	Durability Durability `json:"durability,omitempty"`

	// Key of the pod label that names the failure domain. Servers with the same value are in one failure domain, and the
	// replicas of a segment are in different domains. kubernetes.io/hostname means the node, and needs no label. Since
	// version 1.35 Kubernetes copies topology.kubernetes.io/zone and topology.kubernetes.io/region from nodes to pods;
	// other labels must be set on the pods. If not set: each server is a domain of its own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",reason=FieldValueInvalid,messageExpression="'spec.topologyKey is %s; accepted: a label key, for example topology.kubernetes.io/zone'.format([self])"
	TopologyKey string `json:"topologyKey,omitempty"`

	// Deprecated: use topologyKey. Accepted in 0.1, refused from 0.2.
	// +optional
	DeprecatedFailureDomain FailureDomain `json:"failureDomain,omitempty"`

	// Deprecated: use topologyKey. Accepted in 0.1, refused from 0.2.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",reason=FieldValueInvalid,messageExpression="'spec.failureDomainLabel is %s; accepted: a label key, for example topology.kubernetes.io/region'.format([self])"
	DeprecatedFailureDomainLabel string `json:"failureDomainLabel,omitempty"`

	// Network between clients and servers, and between servers.
	// +optional
	// +kubebuilder:default={}
	Network NetworkSpec `json:"network,omitzero"`

	// How clients outside Kubernetes reach the cluster. Authentication is not supported yet: everyone who can reach the ports
	// can read and write all data.
	// +optional
	// +kubebuilder:default={}
	Expose ExposeSpec `json:"expose,omitzero"`

	// Images to use instead of the operator's defaults.
	// +optional
	Images ImagesSpec `json:"images,omitzero"`

	// How a changed spec is applied to running pods.
	// +optional
	Update UpdateSpec `json:"update,omitzero"`

	// What happens to the volume claims when this object is deleted. Retain: they and the data are kept. Delete: they are
	// deleted; the data is then deleted too, unless the storage class has the reclaim policy Retain.
	// +optional
	// +kubebuilder:default=Retain
	PVCRetention RetentionPolicy `json:"pvcRetention,omitempty"`

	// Number of RAMCloudRecovery objects of finished recoveries that are kept. If there are more, those of the oldest
	// crashes are deleted. Objects of unfinished recoveries are always kept.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	RecoveryHistoryLimit *int32 `json:"recoveryHistoryLimit,omitempty"`

	// If true, the operator changes nothing in this cluster. It still updates the status, and the cluster keeps working.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Deprecated: use paused. Accepted in 0.1, refused from 0.2.
	// +optional
	DeprecatedPause bool `json:"pause,omitempty"`
}

// CoordinatorSpec describes the coordinators' pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || !has(self.storage.size) || (has(oldSelf.storage) && has(oldSelf.storage.size)) || !quantity(string(self.storage.size)).isLessThan(quantity('1Gi'))",fieldPath=".storage.size",reason=FieldValueForbidden,messageExpression="'spec.coordinator.storage.size is %s and was not set, which is 1Gi: a volume cannot shrink; accepted: at least 1Gi'.format([string(self.storage.size)])"
type CoordinatorSpec struct {
	// Number of coordinators: 1, or 3 (one leader and two standbys). 3 needs an etcd (spec.metadata).
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self == 1 || self == 3",reason=FieldValueInvalid,messageExpression="'spec.coordinator.replicas is %d; accepted: 1 or 3'.format([self])"
	Replicas int32 `json:"replicas,omitempty"`
	// Compute resources. Default: requests of 50m CPU and 64Mi of memory, and a memory limit of 256Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Volume for the cluster's metadata. Not used if the metadata is in an etcd.
	// +optional
	// +kubebuilder:default={}
	Storage StorageSpec `json:"storage,omitzero"`
}

// MetadataSpec says where the metadata is.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.etcd) && has(self.managedEtcd))",reason=FieldValueInvalid,message="spec.metadata has both etcd and managedEtcd; accepted: one of them, or neither (the metadata is then on the coordinator's volume)"
type MetadataSpec struct {
	// An etcd that exists already, and that the operator does not manage.
	// +optional
	Etcd *ExternalEtcdSpec `json:"etcd,omitempty"`
	// An etcd that the operator runs for this cluster.
	// +optional
	ManagedEtcd *ManagedEtcdSpec `json:"managedEtcd,omitempty"`
}

// ExternalEtcdSpec names an etcd that the operator does not run. The endpoints may be changed when its members change.
// The prefix may not: it is a part of the cluster's identity.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tlsSecretRef) && has(self.tlsSecret))",fieldPath=".tlsSecret",reason=FieldValueInvalid,messageExpression="'spec.metadata.etcd has both tlsSecretRef (%s) and tlsSecret (%s), which is its old name; accepted: tlsSecretRef without tlsSecret'.format([self.tlsSecretRef.name, self.tlsSecret])"
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",fieldPath=".prefix",reason=FieldValueForbidden,messageExpression="'spec.metadata.etcd.prefix is %s and was %s: coordinators with another prefix would found another cluster beside this one; accepted: the prefix that it was made with'.format([has(self.prefix) ? self.prefix : 'not set', has(oldSelf.prefix) ? oldSelf.prefix : 'not set'])"
type ExternalEtcdSpec struct {
	// Address (host:port) of each member of the etcd.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:MaxLength=262
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.matches('^[A-Za-z0-9][-A-Za-z0-9.]*:[0-9]{1,5}$'))",reason=FieldValueInvalid,messageExpression="'spec.metadata.etcd.endpoints is %s; accepted: host:port of each member, without https://, for example etcd-0.etcd:2379'.format([self])"
	Endpoints []string `json:"endpoints,omitempty"`
	// Prefix of all keys of this cluster. Several clusters can share an etcd if their prefixes differ. It cannot be changed.
	// Default: /ramcloud/NAMESPACE/NAME.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_./]*[-A-Za-z0-9_.]$')",reason=FieldValueInvalid,messageExpression="'spec.metadata.etcd.prefix is %s; accepted: a path of letters, digits and - _ . / that begins with / and does not end with it, for example /ramcloud/my-cluster'.format([self])"
	Prefix string `json:"prefix,omitempty"`
	// Secret with ca.crt (certificate of the authority that signed the etcd's certificates), and tls.crt and tls.key
	// (client certificate and key of the coordinators). If not set: connections without TLS.
	// +optional
	TLSSecretRef *SecretReference `json:"tlsSecretRef,omitempty"`
	// Deprecated: use tlsSecretRef. Accepted in 0.1, refused from 0.2.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeprecatedTLSSecret string `json:"tlsSecret,omitempty"`
}

// SecretReference names a Secret in the namespace of the cluster.
type SecretReference struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// ManagedEtcdSpec describes the etcd that the operator runs for the cluster.
//
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas",fieldPath=".replicas",reason=FieldValueForbidden,messageExpression="'spec.metadata.managedEtcd.replicas is %d and was %d: members are not added or removed yet; accepted: %d'.format([self.replicas, oldSelf.replicas, oldSelf.replicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || !has(self.storage.size) || (has(oldSelf.storage) && has(oldSelf.storage.size)) || !quantity(string(self.storage.size)).isLessThan(quantity('2Gi'))",fieldPath=".storage.size",reason=FieldValueForbidden,messageExpression="'spec.metadata.managedEtcd.storage.size is %s and was not set, which is 2Gi: a volume cannot shrink; accepted: at least 2Gi'.format([string(self.storage.size)])"
type ManagedEtcdSpec struct {
	// Number of etcd members: 1 or 3. With 3, metadata stays available and complete when one member is lost.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self == 1 || self == 3",reason=FieldValueInvalid,messageExpression="'spec.metadata.managedEtcd.replicas is %d; accepted: 1 or 3'.format([self])"
	Replicas int32 `json:"replicas,omitempty"`
	// Image with etcd in /usr/local/bin, for example gcr.io/etcd-development/etcd:v3.6.8. Default: the one that the operator
	// was installed with.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// Volume of each member. Default: 2Gi.
	// +optional
	// +kubebuilder:default={}
	Storage StorageSpec `json:"storage,omitzero"`
	// Compute resources. Default: requests of 50m CPU and 128Mi of memory, and a memory limit of 512Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// How long etcd keeps old revisions before it removes them (compaction), in minutes (m) or hours (h).
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(m|h)$')",reason=FieldValueInvalid,messageExpression="'spec.metadata.managedEtcd.autoCompactionRetention is %s; accepted: minutes or hours, for example 30m or 1h'.format([self])"
	AutoCompactionRetention string `json:"autoCompactionRetention,omitempty"`
}

// UpdateSpec says how a changed spec is applied to running pods.
type UpdateSpec struct {
	// Any text. A new text asks for a rolling restart: each etcd member, then each coordinator and then each server is
	// re-created, one at a time, and only while all others are ready. A server is restarted only while every tablet is served
	// and every segment has all replicas; without replicas it is not restarted. Other changes of spec restart no pod.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_.:]*$')",reason=FieldValueInvalid,messageExpression="'spec.update.restartRequest is %s; accepted: letters, digits and - _ . :, for example 2026-01-31T10:00:00Z'.format([self])"
	RestartRequest string `json:"restartRequest,omitempty"`
}

// StorageSpec describes one pod's volume. If spec had no size, the first size that is set must be at least the default
// size. Coordinators, etcd members and servers have different defaults, so the types that contain a StorageSpec have
// this rule.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",fieldPath=".storageClass",reason=FieldValueForbidden,messageExpression="'storageClass is %s and was %s: volumes that exist stay in their class; accepted: %s'.format([has(self.storageClass) ? self.storageClass : 'not set', has(oldSelf.storageClass) ? oldSelf.storageClass : 'not set', has(oldSelf.storageClass) ? oldSelf.storageClass : 'not set'])"
type StorageSpec struct {
	// Storage class. If not set: the default class of the Kubernetes cluster. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClass *string `json:"storageClass,omitempty"`

	// Size of the volume. It can grow, if the storage class allows it. A smaller size is accepted only while
	// status.resizing.volumesInfeasible is not 0, to undo an increase that failed. Default: for servers
	// 2 x replicationFactor x memory.log, and a little for the file system; for a coordinator 1Gi; for a member of etcd 2Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isInteger()",reason=FieldValueInvalid,messageExpression="'size is %s; accepted: a whole number of bytes, more than 0, for example 2Gi'.format([self])"
	Size *resource.Quantity `json:"size,omitempty"`
}

// TemplateMetadata has labels and annotations for pods.
type TemplateMetadata struct {
	// Labels of the pods.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ExposeSpec says how clients outside Kubernetes reach the cluster.
type ExposeSpec struct {
	// None, NodePort or LoadBalancer. Clients connect to every server, so each coordinator and each server gets a Service of
	// its own, and its pod is created only when that Service has an address.
	// +optional
	// +kubebuilder:default=None
	Type ExposeType `json:"type,omitempty"`
	// Annotations of these Services, for example for the load balancer.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ImagesSpec replaces the default images.
type ImagesSpec struct {
	// Image of coordinators and servers. Default: the one that the operator was installed with.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Node string `json:"node,omitempty"`
	// When the kubelet pulls the image. Default: IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// Secrets for pulling images, in the namespace of the cluster.
	// +optional
	// +listType=atomic
	PullSecrets []corev1.LocalObjectReference `json:"pullSecrets,omitempty"`
}

// RAMCloudCluster is a cluster that keeps tables of objects in the memory of its servers, and the
// replicas of each object on the volumes of other servers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rcc,categories=all;ramcloud
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.servers.replicas,statuspath=.status.servers.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Servers",type=string,JSONPath=`.status.servers.summary`,description="servers up / servers that exist"
// +kubebuilder:printcolumn:name="Data",type=string,JSONPath=`.status.data.state`
// +kubebuilder:printcolumn:name="Live",type=string,JSONPath=`.status.data.memoryLive`,description="log memory that live objects take"
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.data.memoryUsed`,description="log memory in use, dead objects included"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.data.memoryTotal`,priority=1
// +kubebuilder:printcolumn:name="Tables",type=integer,JSONPath=`.status.data.tables`,priority=1
// +kubebuilder:printcolumn:name="Replication",type=integer,JSONPath=`.status.data.replication.factor`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",reason=FieldValueInvalid,messageExpression="'metadata.name is %s; accepted: at most 40 of a-z, 0-9 and -, beginning with a letter and not ending with -, because it becomes part of host names'.format([self.metadata.name])"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.spec.servers) && has(oldSelf.spec.servers.backupStorage) && has(oldSelf.spec.servers.backupStorage.size)) || (has(self.spec.servers) && has(self.spec.servers.backupStorage) && has(self.spec.servers.backupStorage.size) && !quantity(string(self.spec.servers.backupStorage.size)).isLessThan(quantity(string(oldSelf.spec.servers.backupStorage.size)))) || (has(self.status) && has(self.status.resizing) && has(self.status.resizing.volumesInfeasible) && self.status.resizing.volumesInfeasible > 0)",fieldPath=".spec.servers.backupStorage.size",reason=FieldValueForbidden,messageExpression="'size is %s and was %s: a volume cannot shrink; accepted: at least %s'.format([has(self.spec.servers) && has(self.spec.servers.backupStorage) && has(self.spec.servers.backupStorage.size) ? string(self.spec.servers.backupStorage.size) : 'not set', string(oldSelf.spec.servers.backupStorage.size), string(oldSelf.spec.servers.backupStorage.size)])"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.spec.coordinator) && has(oldSelf.spec.coordinator.storage) && has(oldSelf.spec.coordinator.storage.size)) || (has(self.spec.coordinator) && has(self.spec.coordinator.storage) && has(self.spec.coordinator.storage.size) && !quantity(string(self.spec.coordinator.storage.size)).isLessThan(quantity(string(oldSelf.spec.coordinator.storage.size)))) || (has(self.status) && has(self.status.resizing) && has(self.status.resizing.volumesInfeasible) && self.status.resizing.volumesInfeasible > 0)",fieldPath=".spec.coordinator.storage.size",reason=FieldValueForbidden,messageExpression="'size is %s and was %s: a volume cannot shrink; accepted: at least %s'.format([has(self.spec.coordinator) && has(self.spec.coordinator.storage) && has(self.spec.coordinator.storage.size) ? string(self.spec.coordinator.storage.size) : 'not set', string(oldSelf.spec.coordinator.storage.size), string(oldSelf.spec.coordinator.storage.size)])"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.spec.metadata) && has(oldSelf.spec.metadata.managedEtcd) && has(oldSelf.spec.metadata.managedEtcd.storage) && has(oldSelf.spec.metadata.managedEtcd.storage.size)) || (has(self.spec.metadata) && has(self.spec.metadata.managedEtcd) && has(self.spec.metadata.managedEtcd.storage) && has(self.spec.metadata.managedEtcd.storage.size) && !quantity(string(self.spec.metadata.managedEtcd.storage.size)).isLessThan(quantity(string(oldSelf.spec.metadata.managedEtcd.storage.size)))) || (has(self.status) && has(self.status.resizing) && has(self.status.resizing.volumesInfeasible) && self.status.resizing.volumesInfeasible > 0)",fieldPath=".spec.metadata.managedEtcd.storage.size",reason=FieldValueForbidden,messageExpression="'size is %s and was %s: a volume cannot shrink; accepted: at least %s'.format([has(self.spec.metadata) && has(self.spec.metadata.managedEtcd) && has(self.spec.metadata.managedEtcd.storage) && has(self.spec.metadata.managedEtcd.storage.size) ? string(self.spec.metadata.managedEtcd.storage.size) : 'not set', string(oldSelf.spec.metadata.managedEtcd.storage.size), string(oldSelf.spec.metadata.managedEtcd.storage.size)])"
type RAMCloudCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

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
