// Package flagstest starts the real programs with the command lines of the pods that internal/specs builds:
// what is golden there is what etcd and ramcloudd accept.
package flagstest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/client/testing/freeport"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

const patience = 90 * time.Second

// stage maps what the pods have of their own (names, ports, folders) to this machine.
type stage struct {
	t        *testing.T
	replaced []string // old, new …
	// folders are what pods have on their volumes, by name: a pod that starts again finds it there.
	folders map[string]string
	// secret is the data of the Secret that pods mount files from.
	secret map[string][]byte
}

// folder is a pod's volume here.
func (s *stage) folder(pod string) string {
	if s.folders[pod] == "" {
		if s.folders == nil {
			s.folders = map[string]string{}
		}
		s.folders[pod] = s.t.TempDir()
	}
	return s.folders[pod]
}

// mountSecret puts a pod's files of the Secret where they are found here, and gives old and new place.
func (s *stage) mountSecret(pod *corev1.Pod) []string {
	s.t.Helper()
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		folder := s.t.TempDir()
		for _, item := range volume.Secret.Items {
			if len(s.secret[item.Key]) == 0 {
				s.t.Fatalf("%s mounts %s, which is not in the Secret", pod.Name, item.Key)
			}
			if err := os.WriteFile(filepath.Join(folder, item.Path), s.secret[item.Key], 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
		for _, mounted := range pod.Spec.Containers[0].VolumeMounts {
			if mounted.Name == volume.Name {
				return []string{mounted.MountPath, folder}
			}
		}
	}
	return nil
}

// host gives a pod's ports numbers of this machine.
func (s *stage) host(name string, ports ...int) int {
	s.t.Helper()
	offsets := make([]int, len(ports))
	for i := range ports {
		offsets[i] = i
	}
	base, err := freeport.Base(offsets...)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, port := range ports {
		s.replaced = append(s.replaced, fmt.Sprintf("%s.demo.default.svc:%d", name, port), fmt.Sprintf("127.0.0.1:%d", base+i))
	}
	return base
}

// podIP stands for the address of every pod, which is another one than its name leads to.
const podIP = "127.0.0.2"

// start runs a pod's command line; listen are its ports here, by those of the pod.
func (s *stage) start(pod *corev1.Pod, binary string, listen map[int]int) *exec.Cmd {
	s.t.Helper()
	folder := s.folder(pod.Name)
	pairs := append([]string{"/var/lib/etcd", folder, "/var/lib/ramcloud", folder}, s.replaced...)
	pairs = append(pairs, s.mountSecret(pod)...)
	environment := os.Environ()
	at := "127.0.0.1"
	for _, env := range pod.Spec.Containers[0].Env {
		if field := env.ValueFrom; field != nil && field.FieldRef != nil && field.FieldRef.FieldPath == "status.podIP" {
			environment = append(environment, env.Name+"="+podIP)
			at = "0.0.0.0"
		}
	}
	for port, here := range listen {
		pairs = append(pairs, fmt.Sprintf("0.0.0.0:%d", port), fmt.Sprintf("%s:%d", at, here), fmt.Sprintf("[::]:%d", port), fmt.Sprintf("[::]:%d", here))
	}
	translate := strings.NewReplacer(pairs...)
	var args []string
	for _, arg := range pod.Spec.Containers[0].Args {
		args = append(args, translate.Replace(arg))
	}
	command := exec.Command(binary, args...)
	command.Env = environment
	log, err := os.CreateTemp(s.t.TempDir(), "log")
	if err != nil {
		s.t.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
		if s.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			s.t.Logf("%s %v:\n%s", pod.Name, args, text)
		}
	})
	return command
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never saw %s", what)
		}
	}
}

func answers(port int, path string) bool { return answersAt("127.0.0.1", port, path) }

func answersAt(host string, port int, path string) bool {
	reply, err := http.Get("http://" + net.JoinHostPort(host, strconv.Itoa(port)) + path)
	if err != nil {
		return false
	}
	_ = reply.Body.Close()
	return reply.StatusCode == http.StatusOK
}

func programs(t *testing.T) (etcd, ramcloudd string) {
	t.Helper()
	assets, ramcloudd := os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("RAMCLOUDD_BIN")
	if assets == "" || ramcloudd == "" {
		t.Skip("SKIP: KUBEBUILDER_ASSETS (e2e/kind/components.sh envtest prints it) or RAMCLOUDD_BIN (make build leaves build/bin/ramcloudd) is not set")
	}
	return filepath.Join(assets, "etcd"), ramcloudd
}

// TestReplicasAreBoundedAsServersBoundThem: what the API server accepts, servers start with.
func TestReplicasAreBoundedAsServersBoundThem(t *testing.T) {
	_, ramcloudd := programs(t)
	text, err := os.ReadFile("../../../manifests/crds/ramcloud.dev_ramcloudclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	for field, flag := range map[string]string{"replicationFactor": "--replicas", "minReplicas": "--min-replicas"} {
		refused := func(value int) bool {
			said, _ := exec.Command(ramcloudd, "server", flag, strconv.Itoa(value)).CombinedOutput() // it ends: it has no folder
			return strings.HasPrefix(string(said), flag+": value ")
		}
		if most := int(*spec[field].Maximum); refused(most) || !refused(most+1) {
			t.Errorf("spec.%s may be up to %d; servers refuse %d: %v, and %d: %v", field, most, most, refused(most), most+1, refused(most+1))
		}
	}
}

// TestPodsOfAClusterWithEtcd starts an etcd, three coordinators and three servers as their pods would be, follows
// the coordinator as the operator does, and takes the leader away. Each time servers clean in another way, and pods
// listen on another family of addresses.
func TestPodsOfAClusterWithEtcd(t *testing.T) {
	two := int32(2)
	t.Run(plan.TLSOff.String(), func(t *testing.T) {
		podsOfAClusterWithEtcd(t, plan.TLSOff, ramcloudv1.ServersSpec{Cleaning: ramcloudv1.CleaningSpec{Mode: ramcloudv1.CleaningOff}})
	})
	t.Run(plan.TLSRequired.String(), func(t *testing.T) {
		podsOfAClusterWithEtcd(t, plan.TLSRequired, ramcloudv1.ServersSpec{Cleaning: ramcloudv1.CleaningSpec{Mode: ramcloudv1.CleaningTwoLevel},
			CPU: &ramcloudv1.CPUSpec{Cores: 1, Cleaners: &two}})
	})
}

func podsOfAClusterWithEtcd(t *testing.T, tls plan.TLSStage, spec ramcloudv1.ServersSpec) {
	etcdBinary, ramcloudd := programs(t)
	least := int32(1)
	cluster := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "u"}}
	cluster.Spec.Coordinator.Replicas, cluster.Spec.ReplicationFactor, cluster.Spec.MinReplicas = 3, 2, &least
	cluster.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 1, AutoCompactionRetention: "30m"}
	cluster.Spec.Servers, cluster.Status.Etcd.TLS = spec, tls.String()
	s := &stage{t: t, secret: secretOf(t, cluster)}
	// Where they listen on IPv6 they are reached by IPv4 too, as in a cluster that has both.
	ipv6 := tls == plan.TLSRequired
	defaults := specs.Defaults{IPv6: ipv6, Trust: specs.Trust{SecurePeers: map[int32]bool{0: tls == plan.TLSRequired}}}
	etcd := s.host(specs.EtcdName("demo", 0), specs.EtcdClientPort, specs.EtcdPeerPort, specs.EtcdMetricsPort)
	s.replaced = append(s.replaced, specs.EtcdClientAddress(cluster, 0), fmt.Sprintf("127.0.0.1:%d", etcd))
	var coordinators, servers [3]int
	for i := range coordinators {
		coordinators[i] = s.host(specs.CoordinatorName("demo", int32(i)), specs.CoordinatorPort, specs.CoordinatorAdminPort, specs.CoordinatorHTTPPort)
		servers[i] = s.host(specs.ServerName("demo", int32(i)), specs.ServerPort, specs.ServerHTTPPort)
	}
	s.start(specs.EtcdPod(cluster, 0, defaults), etcdBinary, map[int]int{
		specs.EtcdClientPort: etcd, specs.EtcdPeerPort: etcd + 1, specs.EtcdMetricsPort: etcd + 2})
	s.until("etcd ready", func() bool { return answers(etcd+2, "/readyz") && answers(etcd+2, "/livez") })
	running := map[int]*exec.Cmd{}
	for i, port := range coordinators {
		running[port] = s.start(specs.CoordinatorPod(cluster, int32(i), defaults, specs.NodePorts{}), ramcloudd, map[int]int{
			specs.CoordinatorPort: port, specs.CoordinatorAdminPort: port + 1, specs.CoordinatorHTTPPort: port + 2})
	}
	for i, port := range servers {
		s.start(specs.ServerPod(cluster, int32(i), specs.Defaults{IPv6: ipv6}, specs.NodePorts{}), ramcloudd, map[int]int{
			specs.ServerPort: port, specs.ServerHTTPPort: port + 1})
	}
	for i := range coordinators { // those that stand by are ready too: they say who leads
		s.until(fmt.Sprintf("coordinator %d ready", i), func() bool { return answers(coordinators[i]+2, "/readyz") })
	}

	for _, port := range []int{etcd + 2, coordinators[0] + 2, servers[0] + 1} {
		if ipv6 {
			s.until(fmt.Sprintf("port %d by IPv6", port), func() bool { return answersAt("::1", port, "/metrics") })
		}
	}

	watchers := coordinator.NewWatchers(logr.Discard(), coordinator.Tuning{FirstRetry: 50 * time.Millisecond, LastRetry: time.Second,
		Check: time.Second, Answer: 5 * time.Second, Figures: 100 * time.Millisecond}, func(context.Context, types.NamespacedName) {})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = watchers.Start(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	admin := strings.NewReplacer(s.replaced...).Replace(specs.AdminAddress(cluster))
	picture := func() *coordinator.Picture {
		return watchers.Get(types.NamespacedName{Namespace: "default", Name: "demo"}, cluster.UID, admin)
	}
	up := func() bool {
		p, n := picture(), 0
		for _, server := range p.Servers {
			if server.State == adminpb.ServerState_SERVER_UP {
				n++
			}
		}
		return p.Connected && n == len(servers)
	}
	s.until("three servers up", up)
	for _, server := range picture().Servers {
		if !strings.HasPrefix(server.Locator, "tcp:host="+podIP+",") {
			t.Errorf("%s is told to be at %s, want its pod's address", server.Name, server.Locator)
		}
	}
	s.until("how the servers clean", func() bool {
		for _, server := range picture().Servers {
			off := server.GetStats().GetCleaner().GetState() == adminpb.CleanerState_CLEANER_STATE_OFF
			if server.GetStats().GetLogBytesTotal() == 0 || off != (spec.Cleaning.Mode == ramcloudv1.CleaningOff) {
				return false
			}
		}
		return true
	})
	first := picture().Status
	leader := 0
	for _, port := range coordinators {
		if err := coordinator.Ask(ctx, fmt.Sprintf("127.0.0.1:%d", port+1), 5*time.Second); err == nil {
			leader = port
		}
	}
	if leader == 0 {
		t.Fatal("none of the coordinators answers for itself")
	}
	if err := running[leader].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until("another leader", func() bool { p := picture(); return p.Connected && p.Status.Term > first.Term && up() })
	if p := picture(); p.Status.ClusterUuid != first.ClusterUuid {
		t.Errorf("the cluster was %s and is %s", first.ClusterUuid, p.Status.ClusterUuid)
	}
}
