package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apiServer lists its types, answers every other request with "forbidden", and records the requests.
type apiServer struct {
	*httptest.Server
	requests []*http.Request
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{}
	version := `{"groupVersion": "ramcloud.dev/v1alpha1", "version": "v1alpha1"}`
	types := map[string]string{
		"/api": `{"kind": "APIVersions", "versions": []}`,
		"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "ramcloud.dev", "versions": [` + version + `],
			"preferredVersion": ` + version + `}]}`,
		"/apis/ramcloud.dev/v1alpha1": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ramcloud.dev/v1alpha1",
			"resources": [{"name": "ramcloudclusters", "kind": "RAMCloudCluster", "namespaced": true, "verbs": ["get", "list"]}]}`,
	}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests = append(s.requests, r)
		w.Header().Set("Content-Type", "application/json")
		if text := types[r.URL.Path]; text != "" {
			_, _ = w.Write([]byte(text))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"you may not","code":403}`))
	}))
	t.Cleanup(s.Close)
	return s
}

// kubeconfig has the contexts one (at the first server) and two (at the second, with a namespace of its own).
func kubeconfig(t *testing.T, one, two string) string {
	path := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "one",
		"clusters": [{"name": "one", "cluster": {"server": "` + one + `", "insecure-skip-tls-verify": true}}, 
			{"name": "two", "cluster": {"server": "` + two + `", "insecure-skip-tls-verify": true}}],
		"users": [{"name": "u", "user": {"token": "of-u"}}, {"name": "v", "user": {"token": "of-v"}}],
		"contexts": [{"name": "one", "context": {"cluster": "one", "user": "u"}},
			{"name": "two", "context": {"cluster": "two", "user": "u", "namespace": "prod"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The flags are kubectl's, with the same meaning.
func TestFlagsOfKubectl(t *testing.T) {
	one, two := newAPIServer(t), newAPIServer(t)
	config := kubeconfig(t, one.URL, two.URL)
	for _, test := range []struct {
		flags     string
		asked     *apiServer
		namespace string
		header    map[string]string
	}{
		{"", one, "default", map[string]string{"Authorization": "Bearer of-u", "Impersonate-User": ""}},
		{"--context=two", two, "prod", map[string]string{"Authorization": "Bearer of-u"}},
		{"--context=two --namespace=dev", two, "dev", nil},
		{"--context=two -n dev", two, "dev", nil},
		{"--cluster=two --user=v", two, "default", map[string]string{"Authorization": "Bearer of-v"}},
		{"--server=" + two.URL, two, "default", nil},
		{"--as=alice --as-group=dev --as-group=ops", one, "default", map[string]string{"Impersonate-User": "alice", "Impersonate-Group": "dev,ops"}},
		{"--token=mine", one, "default", map[string]string{"Authorization": "Bearer mine"}},
	} {
		t.Run(strings.Split(test.flags, "https")[0], func(t *testing.T) {
			one.requests, two.requests = nil, nil
			var out bytes.Buffer
			command := newPlugin(&out).command()
			command.SetArgs(append([]string{"status", "demo", "--kubeconfig=" + config, "--request-timeout=1m"}, strings.Fields(test.flags)...))
			if err := command.Execute(); err == nil || !strings.Contains(err.Error(), "you may not") {
				t.Errorf("%v", err)
			}
			if len(test.asked.requests) == 0 || len(one.requests)*len(two.requests) != 0 {
				t.Fatalf("the first was asked %d times, the second %d times", len(one.requests), len(two.requests))
			}
			last := test.asked.requests[len(test.asked.requests)-1]
			if want := "/apis/ramcloud.dev/v1alpha1/namespaces/" + test.namespace + "/ramcloudclusters/demo"; last.URL.Path != want {
				t.Errorf("asked for %s, want %s", last.URL.Path, want)
			}
			for name, want := range test.header {
				if got := strings.Join(last.Header[name], ","); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		args string
		want int
	}{
		{"status demo", 0},
		{"status absent", exitFailed},
		{"status demo more", exitUsage},
		{"statsu", exitUsage},
		{"status --verbose", exitUsage},
		{"logs --component=disk", exitUsage},
		{"top --interval=1ms", exitUsage},
		{"cli table list", exitUsage},
		{"cli", exitUsage},
		{"cli --", exitUsage},
		{"cli a b -- table list", exitUsage},
		{"pause demo --dry-run=maybe", exitUsage},
		{"pause demo --dry-run", exitUsage},
		{"pause demo -o xml", exitUsage},
		{"restart demo --component=server", exitUsage},
		{"restart demo --component=etcd --member=demo-etcd-0", exitUsage},
		{"restart demo --wait --timeout=20ms", exitTimedOut},
		{"resume absent", exitFailed},
	} {
		t.Run(test.args, func(t *testing.T) {
			began := false
			_, err := runWith(t, []client.Object{cluster("demo")}, func(c *cobra.Command) {
				c.PersistentPreRun = func(*cobra.Command, []string) { began = true }
			}, strings.Fields(test.args)...)
			if got := codeOf(err, began); got != test.want {
				t.Errorf("exit code %d (%v), want %d", got, err, test.want)
			}
		})
	}
	for err, want := range map[error]int{
		exitCode(7): 7, errors.Join(exitCode(9)): 9, errors.New("x"): exitFailed,
	} {
		if got := codeOf(err, true); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	out, err := run(t, []client.Object{cluster("demo"), cluster("other")}, "__complete", "status", "")
	if err != nil || !strings.HasPrefix(out, "demo\nother\n:4\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, []client.Object{cluster("demo")}, "__complete", "restart", "demo", "--member", "")
	if err != nil || !strings.HasPrefix(out, "demo-coordinator-0\n:4\n") {
		t.Errorf("members: %v\n%s", err, out)
	}
	if out, err = run(t, []client.Object{cluster("demo")}, "__complete", "logs", "demo", ""); err != nil || !strings.HasPrefix(out, ":4\n") {
		t.Errorf("after a name: %v\n%s", err, out)
	}
}
