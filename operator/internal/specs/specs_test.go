package specs

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

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
	c.Spec.FailureDomain = ramcloudv1.FailureDomainServer
	c.Spec.Expose.Type = ramcloudv1.ExposeNodePort
	c.Spec.PVCRetention = ramcloudv1.RetentionRetain
	return c
}

func TestGolden(t *testing.T) {
	plain := demo()
	plain.Spec.Expose.Type = ramcloudv1.ExposeNone
	plain.Spec.FailureDomain = ramcloudv1.FailureDomainZone
	plain.Spec.PVCRetention = ramcloudv1.RetentionDelete
	plain.Spec.Images = ramcloudv1.ImagesSpec{Node: "r/n:2", PullPolicy: corev1.PullAlways, PullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}
	plain.Spec.Servers.Template = ramcloudv1.ServerTemplate{
		Metadata:     ramcloudv1.TemplateMetadata{Labels: map[string]string{"team": "a", LabelCluster: "not-this"}, Annotations: map[string]string{"note": "b"}},
		NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		TopologySpread: []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
	}
	c, ports := demo(), NodePorts{RPC: 30100, Admin: 30101}
	for name, object := range map[string]any{
		"coordinator-pod":     CoordinatorPod(c, "ramcloud/node:1", ports),
		"server-pod":          ServerPod(c, 1, "ramcloud/node:1", NodePorts{RPC: 30200}),
		"server-pod-plain":    ServerPod(plain, 0, "ramcloud/node:1", NodePorts{}),
		"coordinator-claim":   CoordinatorVolumeClaim(c),
		"server-claim":        ServerVolumeClaim(c, 1),
		"server-claim-plain":  ServerVolumeClaim(plain, 1),
		"service":             HeadlessService(c),
		"coordinator-outside": CoordinatorOutsideService(c, ports),
		"server-outside":      ServerOutsideService(c, 1, NodePorts{}),
		"config-map":          ConnectionConfigMap(c, Connection(c, "192.0.2.1", ports)),
		"secret":              ConnectionSecret(plain, Connection(plain, "192.0.2.1", ports)),
		"budget":              DisruptionBudget(c, 4),
		"server":              Server(c, 1),
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
				t.Errorf("differs from %s (go test ./internal/specs -update writes it anew); now:\n%s", path, got)
			}
		})
	}
}

func TestPodsAreRestricted(t *testing.T) {
	for _, pod := range []*corev1.Pod{CoordinatorPod(demo(), "i", NodePorts{}), ServerPod(demo(), 0, "i", NodePorts{})} {
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

func TestTheTemplateHashTellsDifferences(t *testing.T) {
	hash := func(change func(*ramcloudv1.RAMCloudCluster)) string {
		c := demo()
		change(c)
		return ServerPod(c, 0, "i", NodePorts{RPC: 1}).Annotations[AnnotationTemplate]
	}
	same := hash(func(*ramcloudv1.RAMCloudCluster) {})
	if same != hash(func(c *ramcloudv1.RAMCloudCluster) { n := int32(9); c.Spec.Servers.Replicas = &n }) {
		t.Error("the number of servers is in a server's template")
	}
	if same == hash(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Memory.Log = quantity("512Mi") }) {
		t.Error("the log's size is not in a server's template")
	}
}

func TestNodePortsSurviveText(t *testing.T) {
	for _, ports := range []NodePorts{{}, {RPC: 30000}, {RPC: 30000, Admin: 30001}} {
		if got := ParseNodePorts(ports.String()); got != ports {
			t.Errorf("%+v became %+v", ports, got)
		}
	}
	if got := ParseNodePorts("junk,99999999"); got != (NodePorts{}) {
		t.Errorf("junk became %+v", got)
	}
}

func TestSelectors(t *testing.T) {
	pod := ServerPod(demo(), 3, "i", NodePorts{})
	for key, value := range ServerSelector("demo") {
		if pod.Labels[key] != value || !strings.Contains(ServerSelectorText("demo"), key+"="+value) {
			t.Errorf("the selector's %s=%s is not on the pods or not in its text", key, value)
		}
	}
	if index, ok := ServerIndex(pod.Labels); !ok || index != 3 {
		t.Errorf("index %d %t", index, ok)
	}
	if _, ok := ServerIndex(CoordinatorPod(demo(), "i", NodePorts{}).Labels); ok {
		t.Error("the coordinator has a server's index")
	}
}
