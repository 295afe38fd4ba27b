package flagstest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/certs"
	"ramcloud.dev/operator/internal/etcd"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// certificates are those that the operator makes for a cluster.
func certificates(t *testing.T, cluster *ramcloudv1.RAMCloudCluster) *certs.Set {
	t.Helper()
	set := certs.Read(string(cluster.UID), nil)
	if _, err := set.Renew(specs.EtcdCertificates(cluster), nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	return set
}

func secretOf(t *testing.T, cluster *ramcloudv1.RAMCloudCluster) map[string][]byte {
	t.Helper()
	entries, err := certificates(t, cluster).Entries()
	if err != nil {
		t.Fatal(err)
	}
	return specs.EtcdSecret(cluster, entries).Data
}

// moving is an etcd of three members, made of the pods' command lines, that goes from plain connections to TLS.
type moving struct {
	*stage
	binary  string
	cluster *ramcloudv1.RAMCloudCluster
	set     *certs.Set
	base    [3]int
	secure  map[int32]bool
	running [3]*exec.Cmd
	written int
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Skip("SKIP: KUBEBUILDER_ASSETS is not set; e2e/kind/components.sh envtest builds etcd and prints the folder to set it to")
	}
	m := &moving{binary: filepath.Join(assets, "etcd"), secure: map[int32]bool{}}
	m.cluster = &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "u"}}
	m.cluster.Spec.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3}
	m.set = certificates(t, m.cluster)
	entries, err := m.set.Entries()
	if err != nil {
		t.Fatal(err)
	}
	m.stage = &stage{t: t, secret: specs.EtcdSecret(m.cluster, entries).Data}
	for i := range m.base {
		m.base[i] = m.host(specs.EtcdName("demo", int32(i)), specs.EtcdClientPort, specs.EtcdPeerPort, specs.EtcdMetricsPort)
	}
	return m
}

// restart ends member i, if it runs, and starts it as its pod would be now.
func (m *moving) restart(i int32) {
	m.t.Helper()
	if m.running[i] != nil {
		_ = m.running[i].Process.Kill()
		_ = m.running[i].Wait()
	}
	pod := specs.EtcdPod(m.cluster, i, specs.Defaults{Trust: specs.Trust{SecurePeers: m.secure}})
	m.running[i] = m.start(pod, m.binary, map[int]int{
		specs.EtcdClientPort: m.base[i], specs.EtcdPeerPort: m.base[i] + 1, specs.EtcdMetricsPort: m.base[i] + 2})
}

func (m *moving) ready() {
	m.t.Helper()
	for i, base := range m.base {
		m.until(fmt.Sprintf("member %d ready", i), func() bool { return answers(base+2, "/readyz") && answers(base+2, "/livez") })
	}
}

// at goes on to a stage; a new pod is made for it.
func (m *moving) at(stage plan.TLSStage) { m.cluster.Status.Etcd.TLS = stage.String() }

func (m *moving) client(leaf string) *tls.Config {
	m.t.Helper()
	config, err := m.set.Client(leaf)
	if err != nil {
		m.t.Fatal(err)
	}
	return config
}

// put writes a key at member i, plainly or by TLS.
func (m *moving) put(i int, config *tls.Config) error {
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	m.written++
	text := base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(m.written)))
	body, err := json.Marshal(map[string]string{"key": text, "value": text})
	if err != nil {
		return err
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := c.Post(fmt.Sprintf("%s://127.0.0.1:%d/v3/kv/put", scheme, m.base[i]), "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if told, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, told)
	}
	return nil
}

func (m *moving) mustPut(what string, config *tls.Config) {
	m.t.Helper()
	for i := range m.base {
		if err := m.put(i, config); err != nil {
			m.t.Fatalf("%s, at member %d: %v", what, i, err)
		}
	}
}

// others are the client addresses of all members but one.
func (m *moving) others(i int32) (out []string) {
	for j, base := range m.base {
		if int32(j) != i {
			out = append(out, fmt.Sprintf("127.0.0.1:%d", base))
		}
	}
	return out
}

func (m *moving) peerURL(i int32, secure bool) string {
	return strings.NewReplacer(m.replaced...).Replace(specs.EtcdPeerURL(m.cluster, i, secure))
}

// TestAnEtcdMovesToTLS: from an earlier operator's plain etcd, by the stages of the plan, with clients of the kind that each
// stage has at every step; and at the end a member that lost its data.
func TestAnEtcdMovesToTLS(t *testing.T) {
	m, ctx := newMoving(t), context.Background()
	m.at(plan.TLSOff)
	for i := range int32(3) {
		m.restart(i)
	}
	m.ready()
	m.mustPut("plain", nil)
	coordinator := m.client(specs.CoordinatorLeaf())

	m.cluster.Status.Etcd.Formed = true
	m.at(plan.TLSOffered)
	for i := range int32(3) {
		m.restart(i)
		m.ready()
		m.mustPut("plain, while members begin to offer TLS", nil)
	}
	m.at(plan.TLSUsed)
	m.mustPut("by TLS, offered", coordinator)
	m.mustPut("plain, of coordinators that did not move yet", nil)
	if err := m.put(0, &tls.Config{RootCAs: coordinator.RootCAs, MinVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS without a certificate is accepted where it is only offered")
	}

	m.at(plan.TLSRequired)
	for i := range int32(3) {
		c := etcd.Client{Endpoints: m.others(i), TLS: m.client(specs.OperatorLeaf())}
		for range 2 { // the second time changes nothing
			if err := c.Reach(ctx, m.peerURL(i, true)); err != nil {
				t.Fatal(err)
			}
		}
		m.secure[i] = true
		m.restart(i)
		m.ready()
		m.mustPut("by TLS, while members move", coordinator)
	}
	m.refusesStrangers(coordinator)

	lost := int32(2)
	_ = m.running[lost].Process.Kill()
	_ = m.running[lost].Wait()
	if err := os.RemoveAll(filepath.Join(m.folder(specs.EtcdName("demo", lost)), "data")); err != nil {
		t.Fatal(err)
	}
	c := etcd.Client{Endpoints: m.others(lost), TLS: m.client(specs.OperatorLeaf())}
	m.until("the member that lost its data to be taken in", func() bool { return c.Rejoin(ctx, m.peerURL(lost, true)) == nil })
	m.restart(lost)
	m.ready()
	m.mustPut("by TLS, with a new member", coordinator)
}

// refusesStrangers: no client gets in without a certificate of the cluster's authority, and none but a member to the members.
func (m *moving) refusesStrangers(coordinator *tls.Config) {
	m.t.Helper()
	stranger := certs.Read("another", nil)
	if _, err := stranger.Renew(specs.EtcdCertificates(m.cluster), nil, time.Now()); err != nil {
		m.t.Fatal(err)
	}
	theirs, err := stranger.Client(specs.CoordinatorLeaf())
	if err != nil {
		m.t.Fatal(err)
	}
	theirs.RootCAs = coordinator.RootCAs
	nobody := &tls.Config{RootCAs: coordinator.RootCAs, MinVersion: tls.VersionTLS12}
	old := coordinator.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for what, config := range map[string]*tls.Config{"plain": nil, "without a certificate": nobody, "with another authority's": theirs, "by TLS 1.1": old} {
		for i := range m.base {
			if err := m.put(i, config); err == nil {
				m.t.Errorf("a client %s writes at member %d", what, i)
			}
		}
	}
	peer := func(config *tls.Config) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 10 * time.Second}
		answer, err := c.Get(fmt.Sprintf("https://127.0.0.1:%d/version", m.base[0]+1))
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	if err := peer(coordinator); err == nil {
		m.t.Error("a coordinator gets to where only members do")
	}
	if err := peer(m.client("etcd-1-client")); err != nil {
		m.t.Errorf("a member does not get to another: %v", err)
	}
}

// TestRenewedCertificatesNeedNoRestart: etcd reads its certificate for each connection.
func TestRenewedCertificatesNeedNoRestart(t *testing.T) {
	m := newMoving(t)
	m.cluster.Spec.Metadata.ManagedEtcd.Replicas = 1
	m.at(plan.TLSRequired)
	m.secure[0] = true
	m.base = [3]int{m.base[0], m.base[0], m.base[0]}
	m.restart(0)
	m.ready()
	coordinator := m.client(specs.CoordinatorLeaf())
	shown := func() (serial string) {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.base[0]), coordinator)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := shown()
	entries, err := m.set.Entries()
	if err != nil {
		t.Fatal(err)
	}
	delete(entries, "etcd-0.key") // so that it is made again
	again := certs.Read(string(m.cluster.UID), entries)
	if _, err := again.Renew(specs.EtcdCertificates(m.cluster), nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if entries, err = again.Entries(); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(m.running[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--cert-file=") })
	folder := filepath.Dir(strings.TrimPrefix(m.running[0].Args[at], "--cert-file="))
	for _, end := range []string{".crt", ".key"} {
		if err := os.WriteFile(filepath.Join(folder, "tls"+end), entries["etcd-0"+end], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if shown() == before {
		t.Error("the certificate that was replaced is still shown")
	}
}
