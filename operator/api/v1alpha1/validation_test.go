package v1alpha1_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/envtest"
)

var update = flag.Bool("update", false, "rewrite testdata/refusals.golden")

func TestMain(m *testing.M) { envtest.Main(m) }

func newClient(t *testing.T) client.Client {
	c, err := client.New(envtest.Need(t), client.Options{Scheme: envtest.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// create sends a cluster as a user would write it, so that nothing of the Go types fills in for the schema.
func create(t *testing.T, c client.Client, name, spec string) (*ramcloudv1.RAMCloudCluster, error) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("ramcloud.dev/v1alpha1")
	u.SetKind("RAMCloudCluster")
	u.SetNamespace("default")
	u.SetName(name)
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	if fields != nil {
		u.Object["spec"] = fields
	}
	if err := c.Create(context.Background(), u); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), u) })
	cluster := &ramcloudv1.RAMCloudCluster{}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(u), cluster); err != nil {
		t.Fatal(err)
	}
	return cluster, nil
}

func TestDefaults(t *testing.T) {
	c := newClient(t)
	for _, spec := range []string{"", "{}", "servers: {}", "servers: {memory: {}}\nexpose: {}"} {
		cluster, err := create(t, c, "defaults", spec)
		if err != nil {
			t.Fatalf("%q: %v", spec, err)
		}
		s := cluster.Spec
		if s.Servers.Replicas == nil || *s.Servers.Replicas != 3 || s.ReplicationFactor != 2 || s.TopologyKey != "" ||
			s.Servers.Memory.Log.String() != "256Mi" || s.Servers.Memory.HashTableFraction.AsApproximateFloat64() != 0.125 ||
			s.Expose.Type != "None" || s.PVCRetention != "Retain" || s.Coordinator.Replicas != 1 || s.Durability != "Buffered" ||
			s.Network.Transport != "TCP" || s.Network.Provider != "Pod" || s.Servers.HugePages != "None" ||
			s.Servers.Cleaning != (ramcloudv1.CleaningSpec{}) ||
			s.Servers.BackupStorage.VolumeMode != "Filesystem" || s.Metadata.ManagedEtcd != nil || s.Paused || s.Modernize() != nil {
			t.Errorf("%q: defaults are %+v", spec, s)
		}
		if err := c.Delete(context.Background(), cluster); err != nil {
			t.Fatal(err)
		}
	}
}

// bad are clusters that are refused. The full messages are in testdata/refusals.golden.
var bad = []struct{ name, object, spec string }{
	{"fewer servers than replicas need", "x", "servers: {replicas: 2}\nreplicationFactor: 2"},
	{"a volume that is too small", "x", "servers: {backupStorage: {size: 1023Mi}}"},
	{"no log", "x", "servers: {memory: {log: 32Mi}}"},
	{"a broken log size", "x", "servers: {memory: {log: 1500m}}"},
	{"a hash table larger than the log", "x", "servers: {memory: {hashTableFraction: '1.5'}}"},
	{"no hash table", "x", "servers: {memory: {hashTableFraction: '0'}}"},
	{"an empty volume", "x", "coordinator: {storage: {size: '0'}}"},
	{"a topology key that is no label", "x", "topologyKey: 'a b'"},
	{"no topology key", "x", "topologyKey: ''"},
	{"an old failure domain that does not exist", "x", "failureDomain: rack"},
	{"an old label without its name", "x", "failureDomain: label"},
	{"an old label that is not used", "x", "failureDomainLabel: topology.kubernetes.io/region"},
	{"an old label that is none", "x", "failureDomain: label\nfailureDomainLabel: 'a b'"},
	{"a failure domain, old and new", "x", "failureDomain: zone\ntopologyKey: topology.kubernetes.io/zone"},
	{"paused, old and new", "x", "pause: false\npaused: true"},
	{"a Secret, old and new", "x", "metadata: {etcd: {endpoints: ['a:1'], tlsSecret: s, tlsSecretRef: {name: s}}}"},
	{"a Secret without a name", "x", "metadata: {etcd: {endpoints: ['a:1'], tlsSecretRef: {}}}"},
	{"an unknown way to expose", "x", "expose: {type: Ingress}"},
	{"an unknown retention", "x", "pvcRetention: Keep"},
	{"no replicas at all", "x", "replicationFactor: 0"},
	{"more replicas than servers make", "x", "servers: {replicas: 9}\nreplicationFactor: 8"},
	{"more least replicas than replicas", "x", "minReplicas: 3"},
	{"an unknown durability", "x", "durability: eventually"},
	{"no servers", "x", "servers: {replicas: 0}"},
	{"two coordinators", "x", "coordinator: {replicas: 2}"},
	{"three coordinators with one volume", "x", "coordinator: {replicas: 3}"},
	{"two kinds of etcd", "x", "metadata: {etcd: {endpoints: ['a:1']}, managedEtcd: {}}"},
	{"an etcd of two", "x", "metadata: {managedEtcd: {replicas: 2}}"},
	{"a retention without a unit", "x", "metadata: {managedEtcd: {autoCompactionRetention: '3600'}}"},
	{"an etcd without endpoints", "x", "metadata: {etcd: {endpoints: []}}"},
	{"an endpoint that is a URL", "x", "metadata: {etcd: {endpoints: ['https://a:2379']}}"},
	{"a prefix that is not a path", "x", "metadata: {etcd: {endpoints: ['a:2379'], prefix: 'x/'}}"},
	{"huge pages that the log is no multiple of", "x", "servers: {hugePages: 1Gi}"},
	{"huge pages beside resources", "x", "servers: {hugePages: 2Mi, resources: {limits: {memory: 1Gi}}}"},
	{"huge pages of another size", "x", "servers: {hugePages: 4Mi}"},
	{"an unknown use of a volume", "x", "servers: {backupStorage: {volumeMode: Raw}}"},
	{"more reactors than cores", "x", "servers: {cpu: {cores: 2, reactors: 3}}"},
	{"an unknown way to clean", "x", "servers: {cleaning: {mode: two-level}}"},
	{"less bandwidth for recoveries than a server takes", "x", "servers: {recovery: {bandwidth: 1000Ki}}"},
	{"more bandwidth for recoveries than a server takes", "x", "servers: {recovery: {bandwidth: 65Ti}}"},
	{"a part of a byte for recoveries", "x", "servers: {recovery: {bandwidth: 1048577500m}}"},
	{"more cleaners than a server takes", "x", "servers: {cpu: {cores: 1, cleaners: 17}}"},
	{"fewer cleaners than none", "x", "servers: {cpu: {cores: 1, cleaners: -1}}"},
	{"no cores", "x", "servers: {cpu: {cores: 0}}"},
	{"cores twice", "x", "servers: {cpu: {cores: 1}, resources: {limits: {memory: 1Gi}}}"},
	{"less memory than the log", "x", "servers: {resources: {limits: {memory: 256Mi}}}"},
	{"less memory than log and hash table need", "x", "servers: {memory: {hashTableFraction: 250m}, resources: {limits: {memory: 511Mi}}}"},
	{"RDMA", "x", "network: {transport: RDMA}"},
	{"SR-IOV", "x", "network: {provider: SRIOV}"},
	{"an attachment for TCP", "x", "network: {networkAttachmentRef: {name: a}}"},
	{"a device for TCP", "x", "network: {resourceName: rdma/hca}"},
	{"a restart request with blanks", "x", "update: {restartRequest: 'right now'}"},
	{"a name with a dot", "a.b", "{}"},
	{"a name that is too long", strings.Repeat("a", 41), "{}"},
	{"a name that begins with a digit", "1a", "{}"},
}

func TestRefusals(t *testing.T) {
	c := newClient(t)
	var b strings.Builder
	for _, test := range bad {
		_, err := create(t, c, test.object, test.spec)
		if err == nil {
			t.Errorf("%s was accepted", test.name)
			continue
		}
		fmt.Fprintf(&b, "# %s\n%s\n%s\n\n", test.name, test.spec, err)
	}
	const path = "testdata/refusals.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("go test ./api/v1alpha1 -update rewrites %s; -want +got:\n%s", path, diff)
	}
}

// refusedTransitions are changes that the operator could not follow.
var refusedTransitions = map[string]struct {
	spec   string
	change func(*ramcloudv1.RAMCloudClusterSpec)
	want   string
}{
	"sqlite to etcd": {"{}", func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3, AutoCompactionRetention: "1h"}
	}, "spec.metadata cannot be moved to another kind of store"},
	"etcd to sqlite": {"metadata: {managedEtcd: {}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.ManagedEtcd = nil },
		"spec.metadata cannot be moved to another kind of store"},
	"another prefix": {"metadata: {etcd: {endpoints: ['a:2379'], prefix: /x}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.Etcd.Prefix = "/y" },
		"spec.metadata.etcd.prefix is /y and was /x: coordinators with another prefix would found another cluster"},
	"no prefix any more": {"metadata: {etcd: {endpoints: ['a:2379'], prefix: /x}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.Etcd.Prefix = "" },
		"spec.metadata.etcd.prefix is not set and was /x"},
	"a prefix all at once": {"metadata: {etcd: {endpoints: ['a:2379']}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.Etcd.Prefix = "/x" },
		"spec.metadata.etcd.prefix is /x and was not set"},
	"etcd to a managed one": {"metadata: {etcd: {endpoints: ['a:2379']}}", func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Metadata = ramcloudv1.MetadataSpec{ManagedEtcd: &ramcloudv1.ManagedEtcdSpec{Replicas: 3, AutoCompactionRetention: "1h"}}
	}, "spec.metadata cannot be moved to another kind of store"},
	"a device to what is the default": {"servers: {backupStorage: {volumeMode: Block}}", func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Servers.BackupStorage = ramcloudv1.BackupStorageSpec{}
	}, "spec.servers.backupStorage.volumeMode is Filesystem and was Block"},
	"a file system to a device": {"{}", func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Servers.BackupStorage.VolumeMode = ramcloudv1.VolumeModeBlock
	},
		"spec.servers.backupStorage.volumeMode is Block and was Filesystem: the volumes that there are cannot be used in another way; accepted: Filesystem"},
	"another class": {"servers: {backupStorage: {storageClass: a}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.BackupStorage.StorageClass = new("b") },
		"spec.servers.backupStorage.storageClass: Forbidden: storageClass is b and was a: volumes that exist stay in their class; accepted: a"},
	"a class all at once": {"metadata: {managedEtcd: {}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.ManagedEtcd.Storage.StorageClass = new("b") },
		"spec.metadata.managedEtcd.storage.storageClass: Forbidden: storageClass is b and was not set"},
	"a smaller volume": {"servers: {backupStorage: {size: 4Gi}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.BackupStorage.Size = quantity("3Gi") },
		"spec.servers.backupStorage.size: Forbidden: size is 3Gi and was 4Gi: a volume cannot shrink; accepted: at least 4Gi"},
	"no size any more": {"coordinator: {storage: {size: 4Gi}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Coordinator.Storage = ramcloudv1.StorageSpec{} },
		"spec.coordinator.storage.size: Forbidden: size is not set and was 4Gi"},
	"less than the default": {"{}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Coordinator.Storage.Size = quantity("1023Mi") },
		"spec.coordinator.storage.size is 1023Mi and was not set, which is 1Gi"},
	"less than an etcd's default": {"metadata: {managedEtcd: {}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.ManagedEtcd.Storage.Size = quantity("1Gi") },
		"spec.metadata.managedEtcd.storage.size is 1Gi and was not set, which is 2Gi"},
	"too little memory": {"servers: {resources: {limits: {memory: 600Mi}}}", func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Servers.Resources.Limits["memory"] = *quantity("479Mi")
	}, "accepted: at least 480Mi, or leave resources out"},
	"etcd members": {"metadata: {managedEtcd: {}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Metadata.ManagedEtcd.Replicas = 1 },
		"spec.metadata.managedEtcd.replicas is 1 and was 3: members are not added or removed yet; accepted: 3"},
}

func TestTransitionsThatAreRefused(t *testing.T) {
	c := newClient(t)
	for name, test := range refusedTransitions {
		cluster, err := create(t, c, "transition", test.spec)
		if err != nil {
			t.Fatal(err)
		}
		test.change(&cluster.Spec)
		if err := c.Update(context.Background(), cluster); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err := c.Delete(context.Background(), cluster); err != nil {
			t.Fatal(err)
		}
	}
}

// A limit that stays does not allow a log that it is too small for. (A patch leaves the text of other fields as it is.)
func TestALogAboveItsLimitIsRefused(t *testing.T) {
	c := newClient(t)
	cluster, err := create(t, c, "above", "servers: {resources: {limits: {memory: 600Mi}}}")
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"servers":{"memory":{"log":"512Mi"}}}}`))
	if err := c.Patch(context.Background(), cluster, patch); err == nil || !strings.Contains(err.Error(), "accepted: at least 768Mi, or leave resources out") {
		t.Errorf("a log of 512Mi: %v", err)
	}
	patch = client.RawPatch(types.MergePatchType, []byte(`{"spec":{"servers":{"memory":{"log":"64Mi"}}}}`))
	if err := c.Patch(context.Background(), cluster, patch); err != nil {
		t.Errorf("a log of 64Mi: %v", err)
	}
}

// A size of volumes may be lowered while the volumes cannot get it, and not because a server cannot get its memory.
func TestASizeOfVolumesIsLoweredOnlyIfTheyCannotHaveIt(t *testing.T) {
	c := newClient(t)
	for name, test := range map[string]struct {
		status  ramcloudv1.ResizingStatus
		allowed bool
	}{
		"memory":  {ramcloudv1.ResizingStatus{ServersInfeasible: 1}, false},
		"volumes": {ramcloudv1.ResizingStatus{VolumesInfeasible: 1}, true},
	} {
		cluster, err := create(t, c, "lowered-"+name, "servers: {backupStorage: {size: 4Gi}}")
		if err != nil {
			t.Fatal(err)
		}
		cluster.Status.Resizing = test.status
		if err := c.Status().Update(context.Background(), cluster); err != nil {
			t.Fatal(err)
		}
		cluster.Spec.Servers.BackupStorage.Size = quantity("3Gi")
		if err := c.Update(context.Background(), cluster); (err == nil) != test.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func quantity(text string) *resource.Quantity { q := resource.MustParse(text); return &q }

var acceptedTransitions = map[string]struct {
	spec   string
	change func(*ramcloudv1.RAMCloudClusterSpec)
}{
	"the same log in other words": {"{}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.Memory.Log = quantity("268435456") }},
	"a larger volume":             {"servers: {backupStorage: {size: 4Gi}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.BackupStorage.Size = quantity("5Gi") }},
	"a size that was left out": {"metadata: {managedEtcd: {}}", func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Servers.BackupStorage.Size, s.Coordinator.Storage.Size, s.Metadata.ManagedEtcd.Storage.Size = quantity("2Gi"), quantity("1Gi"), quantity("2Gi")
	}},
	"another way to clean": {"servers: {cleaning: {mode: 'Off'}}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.Cleaning.Mode = ramcloudv1.CleaningOneLevel }},
	"a larger hash table":  {"{}", func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.Memory.HashTableFraction = quantity("250m") }},
}

func TestTransitionsThatAreAccepted(t *testing.T) {
	c := newClient(t)
	for name, test := range acceptedTransitions {
		cluster, err := create(t, c, "accepted-transition", test.spec)
		if err != nil {
			t.Fatal(err)
		}
		test.change(&cluster.Spec)
		if err := c.Update(context.Background(), cluster); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Delete(context.Background(), cluster); err != nil {
			t.Fatal(err)
		}
	}
}

// The members of an etcd may change; it is still the same etcd.
func TestEndpointsMayChange(t *testing.T) {
	c := newClient(t)
	cluster, err := create(t, c, "endpoints", "metadata: {etcd: {endpoints: ['a:2379', 'b:2379'], prefix: /x}}")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Spec.Metadata.Etcd.Endpoints = []string{"b:2379", "c:2379"}
	if err := c.Update(context.Background(), cluster); err != nil {
		t.Error(err)
	}
}

var accepted = map[string]string{
	"smallest":      "servers: {replicas: 2, memory: {log: 64Mi}}\nreplicationFactor: 1",
	"exact-volume":  "servers: {backupStorage: {size: 1Gi}}",
	"number-volume": "servers: {backupStorage: {size: 1073741824}}",
	"whole-table":   "servers: {memory: {hashTableFraction: 1}}",
	"managed-etcd":  "coordinator: {replicas: 3}\nmetadata: {managedEtcd: {image: 'a/etcd:1', storage: {size: 1Gi}}}",
	"single-etcd":   "metadata: {managedEtcd: {replicas: 1, autoCompactionRetention: 90m}}",
	"external-etcd": "coordinator: {replicas: 3}\nmetadata: {etcd: {endpoints: ['a.b:2379', 'c:2379'], prefix: /r/c, tlsSecretRef: {name: s}}}",
	"by-label":      "topologyKey: topology.kubernetes.io/region",
	"cores":         "servers: {cpu: {cores: 2, guaranteed: true}}",
	"cleaning":      "servers: {cleaning: {mode: TwoLevel}, cpu: {cores: 1, cleaners: 16}}",
	"bandwidth":     "servers: {recovery: {bandwidth: 1Mi}}",
	"no-cleaning":   "servers: {cleaning: {mode: 'Off'}, cpu: {cores: 1, cleaners: 0}}",
	"balanced":      "expose: {type: LoadBalancer, annotations: {example.com/internal: 'true'}}",
	"huge-pages":    "servers: {hugePages: 2Mi, cpu: {cores: 1, guaranteed: true}}",
	"gigantic":      "servers: {hugePages: 1Gi, memory: {log: 2Gi}}",
	"devices":       "servers: {backupStorage: {volumeMode: Block, storageClass: local, size: 2Gi}}",
	"own-resources": "servers: {resources: {limits: {memory: 480Mi}}}",
	"synced":        "durability: Synced\nminReplicas: 1\npaused: true\nupdate: {restartRequest: '2026-01-31T10:00:00Z'}",
	"all": "coordinator: {resources: {requests: {cpu: 10m}}}\ntopologyKey: topology.kubernetes.io/zone\nexpose: {type: NodePort}\n" +
		"images: {node: 'a/b:1'}\npvcRetention: Delete\nservers: {replicas: 5, template: {tolerations: [{operator: Exists}]}}",
}

func TestAccepted(t *testing.T) {
	c := newClient(t)
	for name, spec := range accepted {
		if _, err := create(t, c, name, spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Old fields and values are accepted, and mean what they meant.
func TestOldFieldsAreAccepted(t *testing.T) {
	c := newClient(t)
	for name, test := range map[string]struct{ old, now string }{
		"old-label": {"failureDomain: label\nfailureDomainLabel: topology.kubernetes.io/region", "topologyKey: topology.kubernetes.io/region"},
		"old-node":  {"failureDomain: node\npause: true", "topologyKey: kubernetes.io/hostname\npaused: true"},
		// Defaults of an earlier version, and the values that its user writes now.
		"old-default": {"failureDomain: server\ntopologyKey: a/b\ndurability: buffered\nnetwork: {transport: tcp, provider: pod}\nservers: {hugePages: none}",
			"topologyKey: a/b"},
		"old-values": {"durability: synced\nmetadata: {etcd: {endpoints: ['a:1'], tlsSecret: s}}",
			"durability: Synced\nmetadata: {etcd: {endpoints: ['a:1'], tlsSecretRef: {name: s}}}"},
	} {
		old, err := create(t, c, name, test.old)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		now, err := create(t, c, name+"-now", test.now)
		if err != nil {
			t.Fatal(err)
		}
		if advice := old.Spec.Modernize(); len(advice) == 0 {
			t.Errorf("%s: no advice", name)
		}
		if advice := now.Spec.Modernize(); len(advice) > 0 {
			t.Errorf("%s-now: %q", name, advice)
		}
		if diff := cmp.Diff(now.Spec, old.Spec); diff != "" {
			t.Errorf("%s: -now +old:\n%s", name, diff)
		}
	}
}

func TestTheSamplesAreAccepted(t *testing.T) {
	c := newClient(t)
	files, err := filepath.Glob("../../../manifests/samples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sample := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(text, &sample.Object); err != nil {
			t.Fatal(err)
		}
		strict := client.WithFieldValidation(c, metav1.FieldValidationStrict) // an unknown field is an error
		if err := strict.Create(context.Background(), sample, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestScaleSubresource(t *testing.T) {
	ctx, c := context.Background(), newClient(t)
	cluster, err := create(t, c, "scaled", "servers: {replicas: 4}")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Status.Servers.Replicas, cluster.Status.Selector = 4, "a=b"
	if err := c.Status().Update(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(ctx, cluster, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 4 || scale.Status.Replicas != 4 || scale.Status.Selector != "a=b" {
		t.Errorf("scale is %+v", scale)
	}
	scale.Spec.Replicas = 6
	if err := c.SubResource("scale").Update(ctx, cluster, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	if *cluster.Spec.Servers.Replicas != 6 {
		t.Errorf("scaled to %d", *cluster.Spec.Servers.Replicas)
	}
	// Scaling below what the replication factor needs is accepted, and answered by ScaleBlocked …
	if err := c.SubResource("scale").Get(ctx, cluster, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 2
	if err := c.SubResource("scale").Update(ctx, cluster, client.WithSubResourceBody(scale)); err != nil {
		t.Errorf("scaling below the replication factor: %v", err)
	}
	// … but asking for more replicas than there are servers for is not.
	if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.ReplicationFactor = 3
	if err := c.Update(ctx, cluster); err == nil || !strings.Contains(err.Error(), "accepted: servers.replicas >= 4") {
		t.Errorf("raising the replication factor: %v", err)
	}
}

func TestAServersSpecDoesNotChange(t *testing.T) {
	ctx, c := context.Background(), newClient(t)
	server := &ramcloudv1.RAMCloudServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fixed"},
		Spec:       ramcloudv1.RAMCloudServerSpec{ClusterName: "demo", Index: 1},
	}
	if err := c.Create(ctx, server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(ctx, server) })
	server.Spec.Index = 2
	err := c.Update(ctx, server)
	if err == nil || !strings.Contains(err.Error(), "change the RAMCloudCluster") {
		t.Errorf("changing a server: %v", err)
	}
}
