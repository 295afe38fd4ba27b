package specs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

const (
	mib = int64(1) << 20

	// defaultLogBytes etc. are the schema's defaults, for objects that did not come from an API server.
	defaultLogBytes          = 256 * mib
	defaultReplicationFactor = 2
	defaultServers           = 3
	defaultEtcdReplicas      = 3
	defaultEtcdVolumeBytes   = 2048 * mib

	// serverOverheadBytes is a server's memory in addition to log and hash table: code, session buffers and
	// segments staged for the volume. A sixteenth of the log is added for segment tables and page tables, which
	// grow with it.
	serverOverheadBytes = 192 * mib
	logOverheadDivisor  = 16

	// volumeSlackBytes is space for the file system and small files.
	volumeSlackBytes = 64 * mib
)

// Sizing has the sizes of a server's memory and volume, in bytes.
type Sizing struct {
	Log       int64
	HashTable int64
	Memory    int64 // of the container, without huge pages
	Backup    int64 // for frames on the volume
	Volume    int64
}

// ServerSizing derives a server's sizes from spec.
func ServerSizing(cluster *ramcloudv1.RAMCloudCluster) Sizing {
	spec := &cluster.Spec
	s := Sizing{Log: defaultLogBytes}
	if spec.Servers.Memory.Log != nil {
		s.Log = spec.Servers.Memory.Log.Value()
	}
	fractionMilli := int64(125)
	if spec.Servers.Memory.HashTableFraction != nil {
		fractionMilli = spec.Servers.Memory.HashTableFraction.MilliValue()
	}
	// Computed in two parts, to avoid both overflow and rounding errors.
	s.HashTable = max(roundUp(s.Log/1000*fractionMilli+s.Log%1000*fractionMilli/1000, mib), mib)
	s.Memory = memoryFor(s.Log, s.HashTable)
	if HugePages(cluster) != "" {
		s.Memory -= s.Log // Kubernetes counts reserved huge pages separately
	}
	s.Backup = 2 * int64(ReplicationFactor(cluster)) * s.Log
	s.Volume = s.Backup + volumeSlackBytes
	if size := spec.Servers.BackupStorage.Size; size != nil {
		s.Volume = size.Value()
		spare := s.Volume / 16
		if OnDevices(cluster) {
			spare = 0
		}
		// A sixteenth is kept for the file system, but the needed frames always fit.
		s.Backup = max(s.Backup, (s.Volume-spare)/mib*mib)
	}
	return s
}

// memoryFor is the memory of a server's container with a log and a hash table of these sizes.
func memoryFor(log, hashTable int64) int64 {
	return roundUp(log+hashTable+log/logOverheadDivisor+serverOverheadBytes, mib)
}

// HugePages is the size of the pages under a server's log, empty for ordinary ones.
func HugePages(cluster *ramcloudv1.RAMCloudCluster) ramcloudv1.HugePages {
	if pages := cluster.Spec.Servers.HugePages; pages != ramcloudv1.HugePagesNone {
		return pages
	}
	return ""
}

// ReplicationFactor is spec.replicationFactor or its default.
func ReplicationFactor(cluster *ramcloudv1.RAMCloudCluster) int32 {
	if cluster.Spec.ReplicationFactor == 0 {
		return defaultReplicationFactor
	}
	return cluster.Spec.ReplicationFactor
}

// WantedServers is spec.servers.replicas or its default.
func WantedServers(cluster *ramcloudv1.RAMCloudCluster) int32 {
	if cluster.Spec.Servers.Replicas == nil {
		return defaultServers
	}
	return *cluster.Spec.Servers.Replicas
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// sizeFlag formats bytes for the daemon's flags.
func sizeFlag(bytes int64) string {
	if bytes%mib == 0 {
		return fmt.Sprintf("%dMiB", bytes/mib)
	}
	return fmt.Sprintf("%d", bytes)
}

func serverResources(cluster *ramcloudv1.RAMCloudCluster) corev1.ResourceRequirements {
	if r := cluster.Spec.Servers.Resources; r != nil {
		return *r
	}
	// Memory that holds data is never overcommitted: request and limit are the same. CPU is shared, unless whole
	// cores are requested.
	memory := *resource.NewQuantity(ServerSizing(cluster).Memory, resource.BinarySI)
	out := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: memory},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: memory},
	}
	if pages := HugePages(cluster); pages != "" {
		name := corev1.ResourceName(corev1.ResourceHugePagesPrefix + string(pages))
		log := *resource.NewQuantity(ServerSizing(cluster).Log, resource.BinarySI)
		out.Requests[name], out.Limits[name] = log, log
	}
	if cpu := cluster.Spec.Servers.CPU; cpu != nil {
		out.Requests[corev1.ResourceCPU] = *resource.NewQuantity(int64(cpu.Cores), resource.DecimalSI)
		if cpu.Guaranteed {
			out.Limits[corev1.ResourceCPU] = out.Requests[corev1.ResourceCPU]
		}
	}
	return out
}

// WantedCoordinators is spec.coordinator.replicas or its default.
func WantedCoordinators(cluster *ramcloudv1.RAMCloudCluster) int32 {
	return max(cluster.Spec.Coordinator.Replicas, 1)
}

// WantedEtcd is how many etcd members the operator runs; 0 if it runs none.
func WantedEtcd(cluster *ramcloudv1.RAMCloudCluster) int32 {
	managed := cluster.Spec.Metadata.ManagedEtcd
	if managed == nil {
		return 0
	}
	if managed.Replicas == 0 {
		return defaultEtcdReplicas
	}
	return managed.Replicas
}

func etcdVolumeBytes(cluster *ramcloudv1.RAMCloudCluster) int64 {
	if managed := cluster.Spec.Metadata.ManagedEtcd; managed != nil && managed.Storage.Size != nil {
		return managed.Storage.Size.Value()
	}
	return defaultEtcdVolumeBytes
}

func etcdResources(cluster *ramcloudv1.RAMCloudCluster) corev1.ResourceRequirements {
	if managed := cluster.Spec.Metadata.ManagedEtcd; managed != nil && managed.Resources != nil {
		return *managed.Resources
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}

func coordinatorResources(cluster *ramcloudv1.RAMCloudCluster) corev1.ResourceRequirements {
	if r := cluster.Spec.Coordinator.Resources; r != nil {
		return *r
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

func coordinatorVolumeSize(cluster *ramcloudv1.RAMCloudCluster) resource.Quantity {
	if size := cluster.Spec.Coordinator.Storage.Size; size != nil {
		return *size
	}
	return resource.MustParse("1Gi")
}
