package etcd

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ramcloud.dev/client/testing/freeport"
)

// three is an etcd of three members on this machine.
type three struct {
	t       *testing.T
	base    int
	folder  string
	running [3]*exec.Cmd
}

func (e *three) client(i int) string { return fmt.Sprintf("127.0.0.1:%d", e.base+2*i) }
func (e *three) peer(i int) string   { return fmt.Sprintf("http://127.0.0.1:%d", e.base+2*i+1) }

func (e *three) plain() Client { return Client{} }

func (e *three) start(i int, state string) {
	e.t.Helper()
	var all []string
	for j := range 3 {
		all = append(all, fmt.Sprintf("m%d=%s", j, e.peer(j)))
	}
	url := "http://" + e.client(i)
	log, err := os.Create(filepath.Join(e.folder, fmt.Sprintf("log%d-%s", i, state)))
	if err != nil {
		e.t.Fatal(err)
	}
	command := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), fmt.Sprintf("--name=m%d", i), "--data-dir="+e.data(i),
		"--listen-client-urls="+url, "--advertise-client-urls="+url, "--listen-peer-urls="+e.peer(i), "--initial-advertise-peer-urls="+e.peer(i),
		"--initial-cluster="+strings.Join(all, ","), "--initial-cluster-state="+state, "--log-level=error", "--unsafe-no-fsync")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.running[i] = command
	e.t.Cleanup(func() {
		e.kill(i)
		_ = log.Close()
		if e.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			e.t.Logf("member %d: %s", i, text)
		}
	})
}

func (e *three) data(i int) string { return filepath.Join(e.folder, fmt.Sprintf("data%d", i)) }

func (e *three) kill(i int) {
	if e.running[i] != nil {
		_ = e.running[i].Process.Kill()
		_ = e.running[i].Wait()
		e.running[i] = nil
	}
}

// until gives etcd time to elect and to catch up.
func (e *three) until(what string, try func() error) {
	e.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("%s: %v", what, err)
		}
	}
}

func (e *three) healthy(i int) error {
	response, err := http.Get("http://" + e.client(i) + "/health")
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("member %d: %s", i, response.Status)
	}
	return nil
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestAMemberThatLostItsDataRejoins(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("SKIP: KUBEBUILDER_ASSETS is not set; e2e/kind/components.sh envtest builds etcd and prints the folder to set it to")
	}
	base, err := freeport.Base(0, 1, 2, 3, 4, 5)
	if err != nil {
		t.Fatal(err)
	}
	e, ctx := &three{t: t, base: base, folder: t.TempDir()}, context.Background()
	for i := range 3 {
		e.start(i, "new")
	}
	for i := range 3 {
		e.until("three members", func() error { return e.healthy(i) })
	}
	if err := e.plain().post(ctx, e.client(0), "/v3/kv/put", map[string]string{"key": encoded("k"), "value": encoded("v")}, &struct{}{}); err != nil {
		t.Fatal(err)
	}

	e.kill(2)
	if err := os.RemoveAll(e.data(2)); err != nil {
		t.Fatal(err)
	}
	others := []string{e.client(2), e.client(0), e.client(1)} // the first does not answer
	for range 2 {                                             // asked again it changes nothing
		e.until("the member to be added again", func() error { return Client{Endpoints: others}.Rejoin(ctx, e.peer(2)) })
		var list struct{ Members []member }
		if err := e.plain().post(ctx, e.client(0), "/v3/cluster/member/list", struct{}{}, &list); err != nil || len(list.Members) != 3 {
			t.Fatalf("%v: %+v", err, list)
		}
	}
	e.start(2, "existing")
	e.until("the member to come up", func() error { return e.healthy(2) })
	e.kill(0) // the new one and one of the old are a majority
	e.until("the key, read from the new member", func() error {
		var got struct{ Kvs []struct{ Value []byte } }
		err := e.plain().post(ctx, e.client(2), "/v3/kv/range", map[string]string{"key": encoded("k")}, &got)
		if err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v") {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	if err := (Client{Endpoints: []string{"127.0.0.1:1"}}).Rejoin(ctx, e.peer(0)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody answered, and the error is %v", err)
	}
}

// A proxy of the environment does not reach the members, which are in the cluster.
func TestNoProxyIsAsked(t *testing.T) {
	if (Client{}).transport().Proxy != nil {
		t.Error("a proxy may stand between")
	}
}
