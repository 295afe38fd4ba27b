package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/fakeadmin"
	"ramcloud.dev/operator/internal/specs"
)

// cluster is a cluster as the operator leaves it, half broken.
func cluster(name string) *ramcloudv1.RAMCloudCluster {
	used, total := resource.MustParse("12Mi"), resource.MustParse("1Gi")
	c := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", Generation: 2}}
	c.Status.ObservedGeneration = 1
	c.Status.Coordinator.ClusterUUID = "the-uuid"
	c.Status.Servers = ramcloudv1.ServersStatus{Replicas: 4, Ready: 3, Summary: "3/4", Crashed: 1}
	c.Status.Data = ramcloudv1.DataStatus{State: ramcloudv1.DataPartial, Tables: 1, Tablets: 4, TabletsUnavailable: 1, Objects: 63000,
		MemoryUsed: &used, MemoryTotal: &total, Replication: ramcloudv1.ReplicationStatus{Segments: 9, FullyReplicated: 8}}
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "TabletsUnavailable", Message: "1 tablets are not served"}}
	return c
}

// page is the answer of a pod's HTTP port in tests.
type page struct{}

func (page) DoRaw(context.Context) ([]byte, error)         { return []byte("a page\n"), nil }
func (page) Stream(context.Context) (io.ReadCloser, error) { return nil, errors.New("not a stream") }
func pods() kubernetes.Interface {
	clientset := kubefake.NewClientset()
	clientset.AddProxyReactor("pods", func(clienttesting.Action) (bool, rest.ResponseWrapper, error) { return true, page{}, nil })
	return clientset
}

func run(t *testing.T, objects []client.Object, args ...string) (string, error) {
	t.Helper()
	return runWith(t, objects, func(*cobra.Command) {}, args...)
}

// runWith runs a command that prepare has changed.
func runWith(t *testing.T, objects []client.Object, prepare func(*cobra.Command), args ...string) (string, error) {
	t.Helper()
	return runOn(t, fakeClient(t, interceptor.Funcs{}, objects...), prepare, args...)
}

// fakeClient is an API server that has these objects.
func fakeClient(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&ramcloudv1.RAMCloudCluster{}).WithObjects(objects...).
		WithInterceptorFuncs(funcs).Build()
}

func runOn(t *testing.T, on client.Client, prepare func(*cobra.Command), args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	var out bytes.Buffer
	p := newPlugin(&out)
	p.client, p.kubernetes, p.progress, p.poll = on, pods(), io.Discard, time.Millisecond
	command := p.command()
	prepare(command)
	command.SetArgs(append([]string{"--namespace=default"}, args...))
	err := command.ExecuteContext(context.Background())
	return out.String(), err
}

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message}
}

// shown are clusters as the operator leaves them, with their pods.
func shown() map[string][]client.Object {
	live, used, total := resource.MustParse("9Mi"), resource.MustParse("12Mi"), resource.MustParse("1Gi")
	four := int32(4)
	base := func() *ramcloudv1.RAMCloudCluster {
		c := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "u", Generation: 2}}
		c.Spec.Servers.Replicas, c.Spec.ReplicationFactor = &four, 2
		c.Status.ObservedGeneration = 2
		c.Status.Coordinator = ramcloudv1.CoordinatorStatus{ClusterUUID: "6ba7b810-9dad-41d1-80b4-00c04fd430c8", Version: "0.1.0", Term: 3, Replicas: 1, Ready: 1}
		c.Status.Servers = ramcloudv1.ServersStatus{Replicas: 4, Ready: 4, Summary: "4/4"}
		c.Status.Data = ramcloudv1.DataStatus{State: ramcloudv1.DataComplete, Tables: 1, Tablets: 4, Objects: 63000,
			MemoryLive: &live, MemoryUsed: &used, MemoryTotal: &total, Replication: ramcloudv1.ReplicationStatus{Segments: 9, FullyReplicated: 9}}
		two := int32(2)
		c.Status.Data.SurvivesServers = &two
		c.Status.Conditions = []metav1.Condition{
			condition("Ready", "True", "AllServersUp", "4 servers up, 4 of 4 tablets served"),
			condition("Degraded", "False", "AsExpected", "the operator knows of no problem"),
			condition("Progressing", "False", "Settled", "everything is as spec asks for"),
			condition("ScaleBlocked", "False", "NotBlocked", "spec.servers.replicas is applied"),
			condition("Paused", "False", "NotPaused", "the operator manages this cluster"),
		}
		return c
	}
	pod := func(name, component string, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: specs.Labels("demo", component)}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	coordinator := pod("demo-coordinator-0", specs.ComponentCoordinator, corev1.ConditionTrue)

	degraded := base()
	degraded.Status.Servers = ramcloudv1.ServersStatus{Replicas: 4, Ready: 3, Summary: "3/4", Crashed: 1}
	degraded.Status.Data.State, degraded.Status.Data.TabletsUnavailable = ramcloudv1.DataPartial, 1
	degraded.Status.Data.Replication = ramcloudv1.ReplicationStatus{Segments: 9, FullyReplicated: 8, UnderReplicated: 1}
	recovery := "server 3 (demo-server-2) is BLOCKED: 1 segments of its log are needed; needed: segment 7 (no replica is whole), held by server 4 (demo-server-3)"
	lost := "1 tablets are not served (1 of table 'books'), of 1 servers; " + recovery
	degraded.Status.Conditions[0] = condition("Ready", "False", "TabletsUnavailable", lost)
	degraded.Status.Conditions[1] = condition("Degraded", "True", "TabletsUnavailable", lost)
	degraded.Status.Conditions = append(degraded.Status.Conditions, condition("Recovering", "True", "RecoveryBlocked", recovery))
	degraded.Status.Servers.EvictionsHeld = "recoveries are not done: " + recovery
	waiting := pod("demo-server-2", specs.ComponentServer, corev1.ConditionFalse)
	waiting.Status.Phase = corev1.PodPending
	waiting.Status.Conditions = append(waiting.Status.Conditions[:0], corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Message: "0/3 nodes are available: 3 Insufficient memory."})

	blocked := base()
	two := int32(2)
	blocked.Spec.Servers.Replicas = &two
	blocked.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	blocked.Status.Etcd = ramcloudv1.EtcdStatus{Replicas: 3, Ready: 3, Formed: true}
	blocked.Status.Conditions[3] = condition("ScaleBlocked", "True", "ScaleInNotSupported", "spec.servers.replicas is 2 and 4 servers exist: "+
		"taking away 2 would lose 2 tablets and the replicas on 2 volumes, since moving them (2 replicas of each segment) is not supported yet; "+
		"accepted: 4 or more")
	blocked.Status.PendingRestart = []ramcloudv1.PendingRestart{{Pod: "demo-server-0", Differs: []string{"image: ramcloud/node:1, wanted ramcloud/node:2"},
		Waits: "no restart was asked for; set spec.update.restartRequest to a new text"}}

	absent := base()
	absent.Generation = 3
	absent.Status.Conditions = nil
	return map[string][]client.Object{
		"healthy":  {base(), coordinator},
		"degraded": {degraded, coordinator.DeepCopy(), waiting},
		"blocked":  {blocked, coordinator.DeepCopy()},
		"unseen":   {absent},
	}
}

func TestGoldenOutputs(t *testing.T) {
	for name, objects := range shown() {
		for _, command := range []string{"status", "explain"} {
			out, err := run(t, objects, command)
			if err != nil {
				t.Fatal(err)
			}
			path := "testdata/" + command + "-" + name + ".txt"
			if *update {
				if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if out != string(want) {
				t.Errorf("differs from %s (go test ./cmd/kubectl-ramcloud -update rewrites it); now:\n%s", path, out)
			}
			if lines := strings.Count(out, "\n"); lines > 24 {
				t.Errorf("%s: %d lines are more than one screen", path, lines)
			}
		}
	}
}

func TestLogs(t *testing.T) {
	out, err := run(t, shown()["degraded"], "logs")
	if err != nil || out != "demo-coordinator-0  fake logs\ndemo-server-2  fake logs\n" {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, shown()["degraded"], "logs", "--component=server")
	if err != nil || out != "demo-server-2  fake logs\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := run(t, shown()["degraded"], "logs", "--component=disk"); err == nil || !strings.Contains(err.Error(), "accepted: coordinator, server, etcd") {
		t.Errorf("%v", err)
	}
}

func TestCLINeedsAPodThatIsReady(t *testing.T) {
	objects := shown()["unseen"]
	if _, err := run(t, objects, "cli", "--", "status"); err == nil || !strings.Contains(err.Error(), "no pod of default/demo is ready") {
		t.Errorf("%v", err)
	}
	if _, err := run(t, objects, "cli"); err == nil {
		t.Error("a command line without a command was accepted")
	}
}

// TestReport checks a bundle, which must not contain the planted secrets.
func TestReport(t *testing.T) {
	objects := shown()["degraded"]
	pod := objects[1].(*corev1.Pod)
	pod.Spec.Containers = []corev1.Container{{Name: "coordinator", Args: []string{"--etcd=https://root:hunter2@etcd"},
		Env: []corev1.EnvVar{{Name: "KEY", Value: "hunter3"}}}}
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "hunter4", "note": "password: hunter5"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-connection", Labels: specs.Labels("demo", "")},
		Data: map[string][]byte{"x": []byte("hunter6")}}
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if out, err := run(t, append(objects, secret), "report", "-o", file); err != nil || !strings.Contains(out, "Look through it") {
		t.Fatalf("%v\n%s", err, out)
	}
	content := map[string]string{}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	zip, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(zip); ; {
		header, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		content[header.Name] = string(text)
		if strings.Contains(string(text), "hunter") {
			t.Errorf("%s has a secret:\n%s", header.Name, text)
		}
	}
	for _, name := range []string{"status.txt", "resources/cluster.yaml", "resources/pods.yaml", "resources/servers.yaml", "events.yaml",
		"pods/demo-coordinator-0/log", "pods/demo-coordinator-0/metrics", "pods/demo-coordinator-0/trace", "pods/demo-server-2/log"} {
		if _, there := content["ramcloud-report/"+name]; !there {
			t.Errorf("the bundle lacks %s", name)
		}
	}
	if !strings.Contains(content["ramcloud-report/resources/pods.yaml"], "REDACTED") {
		t.Error("nothing was redacted")
	}
	if _, err := run(t, objects, "report", "-o", file); err == nil {
		t.Error("a bundle was overwritten")
	}
}

func TestRedaction(t *testing.T) {
	for text, want := range map[string]string{
		"token=abc def":                 "token=REDACTED def",
		`"password": "x y"`:             `"password": "REDACTED y"`,
		"Authorization: Bearer abc.def": "Authorization: REDACTED REDACTED",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----": "REDACTED",
		"tcp:host=demo-server-0,port=11200":                                   "tcp:host=demo-server-0,port=11200",
	} {
		if got := string(redact([]byte(text))); strings.Contains(got, "abc") || strings.Contains(got, "def") && !strings.Contains(want, "def") ||
			!strings.HasPrefix(got, strings.SplitN(want, "REDACTED", 2)[0]) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestALongListOfTables: gRPC's own limit is 4 MiB.
func TestALongListOfTables(t *testing.T) {
	coordinator, err := fakeadmin.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Stop()
	coordinator.SetTable(&adminpb.Table{Id: 1, Name: strings.Repeat("t", 5<<20)})
	connection, err := dial(coordinator.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	reply, err := adminpb.NewAdminClient(connection).ListTables(context.Background(), &adminpb.ListTablesRequest{})
	if err != nil || len(reply.Tables) != 1 {
		t.Errorf("%d tables, %v", len(reply.GetTables()), err)
	}
}

func TestTop(t *testing.T) {
	coordinator, err := fakeadmin.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Stop()
	coordinator.SetServer(&adminpb.Server{Id: 1, Name: "demo-server-0", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{Reads: 10, Objects: 7}})
	coordinator.SetServer(&adminpb.Server{Id: 2, Name: "demo-server-1", State: adminpb.ServerState_SERVER_CRASHED})
	connection, err := grpc.NewClient("passthrough:///"+coordinator.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	var out bytes.Buffer
	p := &plugin{out: &out}
	if err := p.top(context.Background(), adminpb.NewAdminClient(connection), time.Millisecond, 2); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "demo-server-0"); got != 2 || strings.Contains(out.String(), "demo-server-1") {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	topTable(&out, []*adminpb.Server{{Id: 1, Name: "a", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{Reads: 30, Writes: 5}}},
		map[uint64]*adminpb.ServerStats{1: {Reads: 10, Writes: 9}}, 2*time.Second)
	if !strings.Contains(out.String(), "a\t10\t0\t0\t0\t-\t") { // a server of an earlier version does not report live objects
		t.Errorf("%s", out.String())
	}
	out.Reset()
	topTable(&out, []*adminpb.Server{{Id: 1, Name: "a", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{Objects: 3,
		LogBytesLive: 5 << 20, LogBytesUsed: 9 << 20, LogBytesTotal: 64 << 20, HashTableBytes: 8 << 20}}}, nil, time.Second)
	if !strings.Contains(out.String(), "\t3\t5 MiB\t9 of 64 MiB\t") {
		t.Errorf("%s", out.String())
	}
}

func TestServers(t *testing.T) {
	c := cluster("demo")
	s := specs.Server(c, 2)
	s.Status = ramcloudv1.RAMCloudServerStatus{State: ramcloudv1.ServerCrashed, StateReason: "no answer", Incarnation: "7"}
	live, used, total := resource.MustParse("5Mi"), resource.MustParse("9Mi"), resource.MustParse("64Mi")
	s.Status.MemoryLive, s.Status.MemoryUsed, s.Status.MemoryTotal = &live, &used, &total
	other := specs.Server(cluster("other"), 0)
	out, err := run(t, []client.Object{c, s, other}, "servers", "demo")
	if err != nil || !strings.Contains(out, "demo-server-2") || !strings.Contains(out, "no answer") || strings.Contains(out, "other-server") ||
		!regexp.MustCompile(`LIVE +USED +MEMORY`).MatchString(out) || !regexp.MustCompile(`5Mi +9Mi +64Mi`).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestConnect(t *testing.T) {
	c := cluster("demo")
	configMap := specs.ConnectionConfigMap(c, map[string]string{"cluster": "in:1", "admin": "in:2", "cluster-outside": "out:3"})
	out, err := run(t, []client.Object{c, configMap}, "connect")
	if err != nil || !strings.Contains(out, "RAMCLOUD_CLUSTER=in:1") || !strings.Contains(out, "RAMCLOUD_CLUSTER=out:3") || !strings.Contains(out, "port-forward") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := run(t, []client.Object{c}, "connect"); err == nil || !strings.Contains(err.Error(), "has not published how to connect") {
		t.Errorf("without a ConfigMap: %v", err)
	}
	configMap.OwnerReferences = nil
	if _, err := run(t, []client.Object{c, configMap}, "connect"); err == nil || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("with somebody else's ConfigMap: %v", err)
	}
}

func TestWhichCluster(t *testing.T) {
	for _, test := range []struct {
		objects []client.Object
		args    []string
		want    string
	}{
		{nil, []string{"status"}, "there is no RAMCloudCluster in namespace 'default'"},
		{[]client.Object{cluster("a"), cluster("b")}, []string{"status"}, "has 2 clusters, name one of: a, b"},
		{[]client.Object{cluster("a")}, []string{"status", "x"}, "there is no RAMCloudCluster 'x'"},
		{[]client.Object{cluster("a")}, []string{"status", "a", "b"}, "accepts at most 1 arg"},
	} {
		if _, err := run(t, test.objects, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
}

// The printed R is the factor that the masters use, also if the spec has none or another one.
func TestReplicationFactorInForce(t *testing.T) {
	for _, test := range []struct {
		spec, inForce int32
		want          string
	}{{2, 2, "R = 2"}, {0, 3, "R = 3 (spec: 2)"}, {3, 2, "R = 2 (spec: 3)"}, {0, 0, "R = 2"}} {
		c := &ramcloudv1.RAMCloudCluster{}
		c.Spec.ReplicationFactor, c.Status.Data.Replication.Factor = test.spec, test.inForce
		if got := replicationFactor(c); got != test.want {
			t.Errorf("spec %d, in force %d: %q, want %q", test.spec, test.inForce, got, test.want)
		}
	}
}

// Every reason can be found in the documentation and in explain.
func TestTroubleshootingHasEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operating/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for reason := range advice {
		if !strings.Contains(string(page), "\n| `"+reason+"` |") {
			t.Errorf("docs/operating/troubleshooting.md has no row for %s", reason)
		}
	}
}
