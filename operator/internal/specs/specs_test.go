package specs

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/certs"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// demo is the sample cluster, with the schema's defaults filled in.
func demo() *ramcloudv1.RAMCloudCluster {
	replicas := int32(4)
	c := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "11111111-2222-3333-4444-555555555555"}}
	c.Spec.Servers.Replicas = &replicas
	c.Spec.Servers.Memory.Log = quantity("256Mi")
	c.Spec.Servers.Memory.HashTableFraction = quantity("0.125")
	c.Spec.ReplicationFactor = 2
	c.Spec.Expose.Type = ramcloudv1.ExposeNodePort
	c.Spec.PVCRetention = ramcloudv1.RetentionRetain
	return c
}

// everything is a cluster with all that can be asked for.
func everything() *ramcloudv1.RAMCloudCluster {
	c := demo()
	least := int32(1)
	c.Spec.Coordinator.Replicas = 3
	c.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3, Image: "registry.example/etcd:v3", AutoCompactionRetention: "30m",
		Storage: ramcloudv1.StorageSpec{Size: quantity("4Gi")}}
	c.Spec.Durability, c.Spec.MinReplicas = ramcloudv1.DurabilitySynced, &least
	c.Spec.TopologyKey = corev1.LabelTopologyRegion
	c.Spec.Servers.CPU = &ramcloudv1.CPUSpec{Cores: 2, Guaranteed: true, Reactors: 2, Cleaners: &least}
	c.Spec.Servers.Cleaning.Mode = ramcloudv1.CleaningOneLevel
	c.Spec.Servers.Recovery.Bandwidth = quantity("200Mi")
	c.Spec.Servers.Template.PriorityClassName = "important"
	c.Spec.Update.RestartRequest = "2026-01-31"
	return c
}

func onDevices() *ramcloudv1.RAMCloudCluster {
	c := demo()
	c.Spec.Servers.BackupStorage.VolumeMode = ramcloudv1.VolumeModeBlock
	c.Spec.Servers.BackupStorage.Size = quantity("2Gi")
	return c
}

func TestGolden(t *testing.T) {
	plain := demo()
	plain.Spec.Expose.Type = ramcloudv1.ExposeNone
	plain.Spec.TopologyKey = corev1.LabelTopologyZone
	plain.Spec.PVCRetention = ramcloudv1.RetentionDelete
	plain.Spec.Images = ramcloudv1.ImagesSpec{Node: "r/n:2", PullPolicy: corev1.PullAlways, PullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}
	plain.Spec.Servers.Template = ramcloudv1.ServerTemplate{
		Metadata:     ramcloudv1.TemplateMetadata{Labels: map[string]string{"team": "a", LabelCluster: "not-this"}, Annotations: map[string]string{"note": "b"}},
		NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		TopologySpread: []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
	}
	full := everything()
	secure, offered := everything(), everything()
	secure.Status.Etcd.TLS, offered.Status.Etcd.TLS, offered.Status.Etcd.Formed = "Required", "Offered", true
	trust := Trust{SecurePeers: map[int32]bool{0: true, 1: true, 2: true}, Authorities: "0123456789ab", Until: time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)}
	external := demo()
	external.Spec.Expose.Type = ramcloudv1.ExposeNone
	external.Spec.Metadata.Etcd = &ramcloudv1.ExternalEtcdSpec{Endpoints: []string{"a.example:2379", "b.example:2379"}, Prefix: "/x", TLSSecretRef: &ramcloudv1.SecretReference{Name: "etcd-client"}}
	devices := onDevices()
	balanced := demo()
	balanced.Spec.Expose = ramcloudv1.ExposeSpec{Type: ramcloudv1.ExposeLoadBalancer, Annotations: map[string]string{"example.com/internal": "true"}}
	balancer := ServerOutsideService(balanced, 0, NodePorts{})
	if got := AllocatedNodePorts(balancer); got != (NodePorts{}) {
		t.Errorf("a load balancer without an address has %+v", got)
	}
	balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}
	c, ports := demo(), NodePorts{RPC: 30100, Admin: 30101}
	for name, object := range map[string]any{
		"coordinator-pod":     CoordinatorPod(c, 0, Defaults{Image: "ramcloud/node:1"}, ports),
		"server-pod":          ServerPod(c, 1, Defaults{Image: "ramcloud/node:1"}, NodePorts{RPC: 30200}),
		"server-pod-plain":    ServerPod(plain, 0, Defaults{Image: "ramcloud/node:1"}, NodePorts{}),
		"coordinator-claim":   CoordinatorVolumeClaim(c, 0),
		"server-claim":        ServerVolumeClaim(c, 1, 1),
		"server-claim-plain":  ServerVolumeClaim(plain, 1, 2),
		"service":             HeadlessService(c),
		"coordinator-outside": CoordinatorOutsideService(c, 0, ports),
		"server-outside":      ServerOutsideService(c, 1, NodePorts{}),
		"config-map":          ConnectionConfigMap(c, Connection(c, []string{OutsideAddress("192.0.2.1", ports)})),
		"budget":              DisruptionBudget(c, 4),
		"server":              Server(c, 1),

		"full-coordinator-pod":     CoordinatorPod(full, 2, Defaults{Image: "ramcloud/node:1"}, ports),
		"full-coordinator-budget":  CoordinatorBudget(full),
		"full-coordinator-outside": CoordinatorOutsideService(full, 2, ports),
		"full-server-pod":          ServerPod(full, 1, Defaults{Image: "ramcloud/node:1"}, NodePorts{RPC: 30200}),
		"full-etcd-pod":            EtcdPod(full, 1, Defaults{Image: "ramcloud/etcd:1"}),
		"full-etcd-service":        EtcdService(full, 1),
		"full-etcd-claim":          EtcdVolumeClaim(full, 1),
		"full-etcd-budget":         EtcdBudget(full),
		"full-config-map":          ConnectionConfigMap(full, Connection(full, []string{"192.0.2.1:30100", "192.0.2.2:30102"})),
		"tls-etcd-pod":             EtcdPod(secure, 1, Defaults{Image: "ramcloud/etcd:1", Trust: trust}),
		"tls-etcd-claim":           EtcdVolumeClaim(secure, 1),
		"tls-etcd-policy":          EtcdNetworkPolicy(secure, "ramcloud-system"),
		"tls-etcd-secret":          EtcdSecret(secure, map[string][]byte{"ca.crt": []byte("cert")}),
		"tls-coordinator-pod":      CoordinatorPod(secure, 2, Defaults{Image: "ramcloud/node:1", Trust: trust}, ports),
		"offered-etcd-pod":         EtcdPod(offered, 1, Defaults{Image: "ramcloud/etcd:1", Trust: Trust{Authorities: "0123456789ab"}}),
		"device-server-pod":        ServerPod(devices, 0, Defaults{Image: "ramcloud/node:1"}, NodePorts{RPC: 30200}),
		"device-server-claim":      ServerVolumeClaim(devices, 0, 1),
		"balanced-server-pod":      ServerPod(balanced, 0, Defaults{Image: "ramcloud/node:1"}, AllocatedNodePorts(balancer)),
		"balanced-server-outside":  ServerOutsideService(balanced, 0, NodePorts{RPC: 11200, Host: "203.0.113.7"}),
		"external-coordinator-pod": CoordinatorPod(external, 0, Defaults{Image: "ramcloud/node:1"}, NodePorts{}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("differs from %s (go test ./internal/specs -update rewrites it); now:\n%s", path, got)
			}
		})
	}
}

func TestPodsAreRestricted(t *testing.T) {
	for _, pod := range []*corev1.Pod{EtcdPod(everything(), 0, Defaults{Image: "i"}), CoordinatorPod(demo(), 0, Defaults{Image: "i"}, NodePorts{}), ServerPod(demo(), 0, Defaults{Image: "i"}, NodePorts{}),
		ServerPod(onDevices(), 0, Defaults{Image: "i"}, NodePorts{})} {
		p, c := pod.Spec.SecurityContext, pod.Spec.Containers[0].SecurityContext
		if !*p.RunAsNonRoot || *p.RunAsUser != 65532 || *p.FSGroup != 65532 || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			*c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || len(c.Capabilities.Drop) != 1 || len(c.Capabilities.Add) != 0 ||
			*pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s is not restricted", pod.Name)
		}
		if pod.Spec.Hostname != pod.Name || pod.Spec.Subdomain != "demo" {
			t.Errorf("%s has no stable name", pod.Name)
		}
	}
}

// The only-the-operator rule: a node that does not answer ends no pod, whatever the user tolerates besides.
func TestPodsStayOnANodeThatDoesNotAnswer(t *testing.T) {
	picky, soon := demo(), int64(10)
	picky.Spec.Servers.Template.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon},
		{Operator: corev1.TolerationOpExists, TolerationSeconds: &soon}}
	for _, pod := range []*corev1.Pod{EtcdPod(everything(), 0, Defaults{}), CoordinatorPod(demo(), 0, Defaults{}, NodePorts{}),
		ServerPod(demo(), 0, Defaults{}, NodePorts{}), ServerPod(picky, 0, Defaults{}, NodePorts{})} {
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
			// Kubernetes goes by the first one that fits.
			first := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), &taint, false) })
			if first < 0 || pod.Spec.Tolerations[first].TolerationSeconds != nil {
				t.Errorf("%s is deleted when its node has the taint %s: %+v", pod.Name, key, pod.Spec.Tolerations)
			}
		}
	}
}

func TestThePriorityClass(t *testing.T) {
	own := demo()
	own.Spec.Servers.Template.PriorityClassName = "mine"
	for want, pods := range map[string][]*corev1.Pod{
		"p": {EtcdPod(everything(), 0, Defaults{PriorityClass: "p"}), CoordinatorPod(own, 0, Defaults{PriorityClass: "p"}, NodePorts{}),
			ServerPod(demo(), 0, Defaults{PriorityClass: "p"}, NodePorts{})},
		"mine": {ServerPod(own, 0, Defaults{PriorityClass: "p"}, NodePorts{})},
		"":     {ServerPod(demo(), 0, Defaults{}, NodePorts{})},
	} {
		for _, pod := range pods {
			if got := pod.Spec.PriorityClassName; got != want {
				t.Errorf("%s has the class %q, want %q", pod.Name, got, want)
			}
		}
	}
}

// A pod that does not work never keeps its node from being drained.
func TestBudgetsLetBrokenPodsGo(t *testing.T) {
	for _, budget := range []*policyv1.PodDisruptionBudget{DisruptionBudget(demo(), 3), CoordinatorBudget(everything()), EtcdBudget(everything())} {
		if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
			t.Errorf("%s: %v", budget.Name, policy)
		}
	}
}

func TestSizing(t *testing.T) {
	for name, test := range map[string]struct {
		log, fraction, size string
		r                   int32
		want                Sizing // in MiB
	}{
		"the default":          {"256Mi", "0.125", "", 2, Sizing{256, 32, 496, 1024, 1088}},
		"a larger log":         {"4Gi", "0.25", "", 3, Sizing{4096, 1024, 4096 + 1024 + 256 + 192, 24576, 24640}},
		"a volume as asked":    {"256Mi", "0.125", "2Gi", 2, Sizing{256, 32, 496, 1920, 2048}},
		"a volume just enough": {"256Mi", "0.125", "1Gi", 2, Sizing{256, 32, 496, 1024, 1024}},
	} {
		c := demo()
		c.Spec.Servers.Memory.Log, c.Spec.Servers.Memory.HashTableFraction = quantity(test.log), quantity(test.fraction)
		c.Spec.ReplicationFactor = test.r
		if test.size != "" {
			c.Spec.Servers.BackupStorage.Size = quantity(test.size)
		}
		got := ServerSizing(c)
		for _, n := range []*int64{&got.Log, &got.HashTable, &got.Memory, &got.Backup, &got.Volume} {
			*n /= mib
		}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// Huge pages are asked for by themselves: the container's memory is what is left.
func TestHugePagesAreAskedFor(t *testing.T) {
	c := demo()
	plain := ServerSizing(c).Memory
	c.Spec.Servers.HugePages = ramcloudv1.HugePages2Mi
	container := ServerPod(c, 0, Defaults{Image: "i"}, NodePorts{}).Spec.Containers[0]
	for name, list := range map[string]corev1.ResourceList{"requests": container.Resources.Requests, "limits": container.Resources.Limits} {
		pages, memory := list["hugepages-2Mi"], list[corev1.ResourceMemory]
		if pages.Value() != 256*mib || memory.Value() != plain-256*mib {
			t.Errorf("%s: %s of huge pages, %s of memory", name, pages.String(), memory.String())
		}
	}
	if !slices.Contains(container.Args, "--huge-pages=2Mi") {
		t.Errorf("%v", container.Args)
	}
}

// A raw device has no file system to leave room for.
func TestADeviceIsUsedWhole(t *testing.T) {
	if got := ServerSizing(onDevices()); got.Backup != 2048*mib || got.Volume != 2048*mib {
		t.Errorf("%+v", got)
	}
}

func TestTheTemplateHashTellsDifferences(t *testing.T) {
	hash := func(change func(*ramcloudv1.RAMCloudCluster)) string {
		c := demo()
		change(c)
		return ServerPod(c, 0, Defaults{Image: "i"}, NodePorts{RPC: 1}).Annotations[AnnotationTemplate]
	}
	same := hash(func(*ramcloudv1.RAMCloudCluster) {})
	if same != hash(func(c *ramcloudv1.RAMCloudCluster) { n := int32(9); c.Spec.Servers.Replicas = &n }) {
		t.Error("the number of servers is in a server's template")
	}
	if same == hash(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Memory.Log = quantity("512Mi") }) {
		t.Error("the log's size is not in a server's template")
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	live := ServerPod(demo(), 0, Defaults{Image: "ramcloud/node:1"}, NodePorts{RPC: 30100})
	// What Kubernetes adds is no difference.
	live.Spec.Tolerations = append(live.Spec.Tolerations, corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists})
	live.Labels[corev1.LabelTopologyZone] = "z"
	for name, test := range map[string]struct {
		change func(*ramcloudv1.RAMCloudCluster)
		want   string // joined with "; "
	}{
		"nothing":                 {func(*ramcloudv1.RAMCloudCluster) {}, ""},
		"a request alone is none": {func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "now" }, ""},
		"image and memory": {func(c *ramcloudv1.RAMCloudCluster) {
			c.Spec.Images.Node, c.Spec.Servers.Memory.Log = "ramcloud/node:2", quantity("512Mi")
		}, "image: ramcloud/node:1, wanted ramcloud/node:2; --backup-size: 1024MiB, wanted 2048MiB; --hash-table-memory: 32MiB, wanted 64MiB; " +
			"--log-memory: 256MiB, wanted 512MiB; resources: requests cpu 50m memory 496Mi, limits memory 496Mi, wanted requests cpu 50m " +
			"memory 800Mi, limits memory 800Mi"},
		"durability": {func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Durability = ramcloudv1.DurabilitySynced },
			"--durability: not given, wanted synced"},
		"cleaning": {func(c *ramcloudv1.RAMCloudCluster) {
			c.Spec.Servers.Cleaning.Mode, c.Spec.Servers.CPU = ramcloudv1.CleaningOff, &ramcloudv1.CPUSpec{Cores: 1, Cleaners: new(int32)}
		}, "--cleaner-threads: not given, wanted 0; --cleaning: not given, wanted off; resources: requests cpu 50m memory 496Mi, " +
			"limits memory 496Mi, wanted requests cpu 1 memory 496Mi, limits memory 496Mi"},
		"the bandwidth of recoveries": {func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Recovery.Bandwidth = quantity("1500000") },
			"--recovery-bandwidth: not given, wanted 1500000"},
		"no more exposed": {func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Expose.Type = ramcloudv1.ExposeNone },
			"--advertise-outside: $(HOST_IP):30100, wanted without"},
		"where it may run": {func(c *ramcloudv1.RAMCloudCluster) {
			c.Spec.Servers.Template.NodeSelector = map[string]string{"disk": "fast"}
			c.Spec.Servers.Template.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			c.Spec.Servers.Template.Affinity = &corev1.Affinity{}
			c.Spec.Servers.Template.TopologySpread = []corev1.TopologySpreadConstraint{{MaxSkew: 3}}
			c.Spec.Servers.Template.PriorityClassName = "p"
		}, `nodeSelector disk: "", wanted "fast"; affinity; tolerations; topologySpread; priorityClassName: "", wanted "p"`},
	} {
		c := demo()
		test.change(c)
		got := strings.Join(Differences(live, ServerPod(c, 0, Defaults{Image: "ramcloud/node:1"}, NodePorts{RPC: 30100})), "; ")
		if got != test.want {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
	wanted := ServerPod(demo(), 0, Defaults{Image: "ramcloud/node:1"}, NodePorts{RPC: 30100})
	wanted.Annotations[AnnotationTemplate] = "other"
	if got := Differences(live, wanted); len(got) != 1 || !strings.Contains(got[0], "newer operator") {
		t.Errorf("another operator's template: %v", got)
	}
}

func TestMetadataStores(t *testing.T) {
	one := demo()
	if WantedEtcd(one) != 0 || !MetadataOnVolume(one) || CoordinatorAddress(one) != "demo-coordinator-0.demo.default.svc:11100" {
		t.Errorf("sqlite: %d members, %s", WantedEtcd(one), CoordinatorAddress(one))
	}
	full := everything()
	if WantedEtcd(full) != 3 || MetadataOnVolume(full) || strings.Count(CoordinatorAddress(full), ",") != 2 || strings.Count(AdminAddress(full), ":11101") != 3 {
		t.Errorf("etcd: %d members, %s, %s", WantedEtcd(full), CoordinatorAddress(full), AdminAddress(full))
	}
}

func TestNodePortsSurviveText(t *testing.T) {
	for _, ports := range []NodePorts{{}, {RPC: 30000}, {RPC: 30000, Admin: 30001}, {RPC: 11100, Admin: 11101, Host: "2001:db8::1"}} {
		if got := ParseNodePorts(ports.String()); got != ports {
			t.Errorf("%+v became %+v", ports, got)
		}
	}
	if got := ParseNodePorts("junk,99999999"); got != (NodePorts{}) {
		t.Errorf("junk became %+v", got)
	}
}

func TestSelectors(t *testing.T) {
	pod := ServerPod(demo(), 3, Defaults{Image: "i"}, NodePorts{})
	for key, value := range ServerSelector("demo") {
		if pod.Labels[key] != value || !strings.Contains(ServerSelectorText("demo"), key+"="+value) {
			t.Errorf("the selector's %s=%s is not on the pods or not in its text", key, value)
		}
	}
	if index, ok := ServerIndex(pod.Labels); !ok || index != 3 {
		t.Errorf("index %d %t", index, ok)
	}
	if _, ok := ServerIndex(CoordinatorPod(demo(), 0, Defaults{Image: "i"}, NodePorts{}).Labels); ok {
		t.Error("the coordinator has a server's index")
	}
}

// What changes while other members move, or is renewed, is no difference of a pod that runs.
func TestMovingMembersDifferInNothing(t *testing.T) {
	c := everything()
	c.Status.Etcd.TLS = "Required"
	some := Trust{SecurePeers: map[int32]bool{1: true}, Authorities: "a"}
	all := Trust{SecurePeers: map[int32]bool{0: true, 1: true, 2: true}, Authorities: "a.b", Until: time.Now()}
	live, wanted := EtcdPod(c, 1, Defaults{Trust: some}), EtcdPod(c, 1, Defaults{Trust: all})
	if got := Differences(live, wanted); got != nil {
		t.Errorf("%q", got)
	}
	if args := live.Spec.Containers[0].Args; !slices.Contains(args, "--initial-cluster=demo-etcd-0=http://demo-etcd-0.demo.default.svc:2380,"+
		"demo-etcd-1=https://demo-etcd-1.demo.default.svc:2380,demo-etcd-2=http://demo-etcd-2.demo.default.svc:2380") {
		t.Errorf("a member that joins is told of others as they are not: %q", args)
	}
	wanted.Spec.Containers[0].Args, wanted.Annotations[AnnotationTemplate] = append(wanted.Spec.Containers[0].Args, "--x=y"), "other"
	if got := Differences(live, wanted); len(got) != 1 || !strings.HasPrefix(got[0], "--x") {
		t.Errorf("%q", got)
	}
}

// Nothing changes for an etcd without TLS: pods that an earlier operator made are not reported as different.
func TestPlainPodsStayAsTheyWere(t *testing.T) {
	off := everything()
	off.Status.Etcd.TLS = "Off"
	for name, pods := range map[string][2]*corev1.Pod{
		"etcd":        {EtcdPod(everything(), 1, Defaults{Image: "i"}), EtcdPod(off, 1, Defaults{Image: "i", Trust: Trust{Authorities: "a"}})},
		"coordinator": {CoordinatorPod(everything(), 1, Defaults{Image: "i"}, NodePorts{}), CoordinatorPod(off, 1, Defaults{Image: "i", Trust: Trust{Authorities: "a"}}, NodePorts{})},
	} {
		if got := Differences(pods[0], pods[1]); got != nil || pods[1].Annotations[AnnotationAuthorities] != "" {
			t.Errorf("%s: %q, %v", name, got, pods[1].Annotations)
		}
	}
}

// The key of an authority is in no pod, and a coordinator has no key of a member.
func TestPodsHaveTheirOwnKeysOnly(t *testing.T) {
	c := everything()
	c.Status.Etcd.TLS = "Required"
	trust := Trust{SecurePeers: map[int32]bool{0: true, 1: true, 2: true}}
	for want, pod := range map[string]*corev1.Pod{
		"demo.ca.crt demo.etcd-1.crt demo.etcd-1.key demo.etcd-1-client.crt demo.etcd-1-client.key": EtcdPod(c, 1, Defaults{Trust: trust}),
		"demo.ca.crt demo.coordinator.crt demo.coordinator.key":                                     CoordinatorPod(c, 1, Defaults{Trust: trust}, NodePorts{}),
		"": ServerPod(c, 1, Defaults{Trust: trust}, NodePorts{}),
	} {
		var keys []string
		for _, volume := range pod.Spec.Volumes {
			if volume.Secret != nil {
				for _, item := range volume.Secret.Items {
					keys = append(keys, item.Key)
				}
				if len(volume.Secret.Items) == 0 {
					t.Errorf("%s has all of Secret %s", pod.Name, volume.Secret.SecretName)
				}
			}
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s has %q, want %q", pod.Name, got, want)
		}
	}
}

// A coordinator is restarted before its certificate ends, and only when there is a later one: else it would be again and again.
func TestOutdatedCoordinators(t *testing.T) {
	c, now := everything(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c.Status.Etcd.TLS = "Required"
	set := certs.Read(string(c.UID), nil)
	renew := func(at time.Time, pods ...string) {
		t.Helper()
		if _, err := set.Renew(EtcdCertificates(c), pods, at); err != nil {
			t.Fatal(err)
		}
	}
	renew(now)
	pod := CoordinatorPod(c, 0, Defaults{Trust: Trust{Authorities: set.Authorities(), Until: set.Until(CoordinatorLeaf())}}, NodePorts{})
	late := now.Add(certs.Life / 6 * 5).Add(time.Hour)
	if why := Outdated(pod, set, late); why != "" {
		t.Errorf("there is no later one, and it is restarted: %s", why)
	}
	renew(now.Add(certs.Life/4*3), set.Authorities())
	if why := Outdated(pod, set, now.Add(certs.Life/4*3)); why != "" {
		t.Errorf("there is time: %s", why)
	}
	if why := Outdated(pod, set, late); !strings.Contains(why, "ends at 2027-03-01") {
		t.Errorf("it ends soon: %q", why)
	}
	if why := Outdated(CoordinatorPod(demo(), 0, Defaults{}, NodePorts{}), set, late); why != "" {
		t.Errorf("without TLS: %s", why)
	}
}

// A claim's name says whose it is, and of which generation; no two members, and no two clusters, have a claim of one name.
func TestVolumeClaimNames(t *testing.T) {
	seen := map[string]string{}
	for _, cluster := range []string{"demo", "demo-g2", "demo-server-1", "g2", "demo-server-1-g2"} {
		for index := range int32(12) {
			for _, pod := range []string{ServerName(cluster, index), CoordinatorName(cluster, index), EtcdName(cluster, index)} {
				for generation := int32(1); generation < 13; generation++ {
					name := VolumeClaimName(pod, generation)
					if of := seen[name]; of != "" {
						t.Fatalf("%s is of %s and %s", name, of, pod)
					}
					seen[name] = pod
					if of, g, ok := ParseVolumeClaimName(name); of != pod || g != generation || !ok {
						t.Fatalf("%s is read as %s, %d, %t", name, of, g, ok)
					}
				}
			}
		}
	}
	for _, name := range []string{"demo-server-1", "data-demo-server-1-g02", "data-demo-server-1-g1", "data-demo-server-1-g", "data-demo-server-1-g-2"} {
		if pod, generation, ok := ParseVolumeClaimName(name); ok && generation != 1 {
			t.Errorf("%s is read as %s, %d", name, pod, generation)
		}
	}
}

// Which claim a pod has is its own, and no part of what it was made from.
func TestAClaimOfALaterGenerationIsNoDifference(t *testing.T) {
	c := &ramcloudv1.RAMCloudCluster{}
	c.Name, c.Namespace = "demo", "default"
	template := Template(c, ComponentServer, Defaults{Image: "i"})
	first, later := Instantiate(c, template, 1, NodePorts{}, Trust{}), Instantiate(c, template, 1, NodePorts{}, Trust{})
	UseClaim(later, 3)
	if got := ClaimOf(later); got != "data-demo-server-1-g3" {
		t.Errorf("the pod has %s", got)
	}
	if differs := Differences(later, first); len(differs) > 0 {
		t.Errorf("differs: %v", differs)
	}
	later.UID = "made"
	if a, b := RevisionName("demo", TemplateOf(later)), RevisionName("demo", template); a != b {
		t.Errorf("its template is %s, and it was made from %s", a, b)
	}
}
