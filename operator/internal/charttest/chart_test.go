// Package charttest tests the charts with Helm's own code, and keeps the plain manifests, which are rendered
// from ramcloud-operator, equal to it.
package charttest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

var update = flag.Bool("update", false, "rewrite manifests/operator/operator.yaml from the chart")

const (
	top       = "../../.."
	chartPath = top + "/charts/ramcloud-operator"
	namespace = "ramcloud-system"
)

// render gives the chart's files for values as a user would set them.
func render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	return renderChart(t, chartPath, "ramcloud-operator", values)
}

func renderChart(t *testing.T, path, release string, values map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		out[strings.TrimPrefix(name, chart.Name()+"/templates/")] = text
	}
	return out, nil
}

func mustRender(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// objects parses the YAML documents of a file.
func objects(t *testing.T, text string) (out []unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var fields map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &fields); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(fields) > 0 {
			out = append(out, unstructured.Unstructured{Object: fields})
		}
	}
	return out
}

func deployment(t *testing.T, values map[string]any) *appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	list := objects(t, mustRender(t, values)["deployment.yaml"])
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(list[0].Object, &d, true); err != nil {
		t.Fatal(err)
	}
	return &d
}

func TestLint(t *testing.T) {
	for _, path := range []string{chartPath, clusterChart} {
		lintChart(t, path)
	}
}

func lintChart(t *testing.T, chartPath string) {
	result := lint.AllWithKubeVersion(chartPath, map[string]any{}, namespace, &chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"})
	for _, m := range result.Messages {
		if m.Severity > 1 { // 1: information, for example that there is no icon
			t.Error(m)
		}
	}
}

func TestTheDeploymentIsRestricted(t *testing.T) {
	d := deployment(t, nil)
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
		*c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		len(c.SecurityContext.Capabilities.Drop) != 1 || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
		t.Errorf("not restricted: %+v %+v", pod.SecurityContext, c.SecurityContext)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("resources: %+v", c.Resources)
	}
	if !slices.Contains(c.Args, "--leader-elect") || c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Errorf("args %v, probes %v %v", c.Args, c.LivenessProbe, c.ReadinessProbe)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("the selector's %s is not on the pods", key)
		}
	}
}

func TestImages(t *testing.T) {
	version, err := os.ReadFile(top + "/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	tag := strings.TrimSpace(string(version))
	digest := "sha256:" + strings.Repeat("ab", 32)
	for name, test := range map[string]struct {
		values         map[string]any
		operator, node string
	}{
		"default": {nil, "ramcloud/operator:" + tag, "ramcloud/node:" + tag},
		"tags": {map[string]any{"image": map[string]any{"repository": "r/o", "tag": "1"}, "nodeImage": map[string]any{"tag": "2"}},
			"r/o:1", "ramcloud/node:2"},
		"digests": {map[string]any{"image": map[string]any{"tag": "1", "digest": digest}, "nodeImage": map[string]any{"digest": digest}},
			"ramcloud/operator@" + digest, "ramcloud/node@" + digest},
	} {
		c := deployment(t, test.values).Spec.Template.Spec.Containers[0]
		if c.Image != test.operator || !slices.Contains(c.Args, "--node-image="+test.node) {
			t.Errorf("%s: %s %v", name, c.Image, c.Args)
		}
	}
}

func TestCRDs(t *testing.T) {
	crds := func(values map[string]any) (out []unstructured.Unstructured) {
		for name, text := range mustRender(t, values) {
			if strings.HasPrefix(name, "crds/") {
				out = append(out, objects(t, text)...)
			}
		}
		return out
	}
	kept := crds(nil)
	if len(kept) != 3 {
		t.Fatalf("%d CRDs", len(kept))
	}
	for _, crd := range kept {
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s is not kept", crd.GetName())
		}
	}
	for _, crd := range crds(map[string]any{"crds": map[string]any{"keep": false}}) {
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "" {
			t.Errorf("%s is kept although that was refused", crd.GetName())
		}
	}
	if n := len(crds(map[string]any{"crds": map[string]any{"enabled": false}})); n != 0 {
		t.Errorf("%d CRDs although they were disabled", n)
	}
}

// roles returns the release's roles with their subjects, by name.
func roles(t *testing.T, values map[string]any) (out []rbacv1.ClusterRole, ours map[string]bool) {
	t.Helper()
	ours = map[string]bool{}
	for _, o := range objects(t, mustRender(t, values)["rbac.yaml"]) {
		switch o.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &role, true); err != nil {
				t.Fatal(err)
			}
			out = append(out, role)
		case "RoleBinding", "ClusterRoleBinding":
			name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			ours[name] = true
		}
	}
	return out, ours
}

func TestRights(t *testing.T) {
	for _, namespaced := range []bool{false, true} {
		list, _ := roles(t, map[string]any{"namespaced": namespaced})
		for _, role := range list {
			if role.Name == "ramcloud-operator" && (role.Kind == "Role") != namespaced {
				t.Errorf("namespaced=%t gives a %s", namespaced, role.Kind)
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
					t.Errorf("%s has everything: %+v", role.Name, rule)
				}
				named := slices.Equal(rule.ResourceNames, []string{specs.EtcdSecretName}) && slices.Equal(rule.Verbs, []string{"get", "create", "patch"})
				if slices.Contains(rule.Resources, "secrets") && !named {
					t.Errorf("%s has a right to Secrets: %v %v", role.Name, rule.Verbs, rule.ResourceNames)
				}
				if slices.Contains(rule.Resources, "networkpolicies") && (!named || specs.EtcdPolicyName != specs.EtcdSecretName) {
					t.Errorf("%s has a right to NetworkPolicies: %v %v", role.Name, rule.Verbs, rule.ResourceNames)
				}
			}
		}
	}
}

// A namespaced release has nothing beyond its namespace; a user without the right to create CRDs can have
// them created by another.
func TestANamespacedReleaseStaysInItsNamespace(t *testing.T) {
	for _, secure := range []bool{false, true} {
		values := map[string]any{"namespaced": true, "crds": map[string]any{"enabled": false}, "metrics": map[string]any{"secure": secure}}
		for kind, list := range kinds(t, values) {
			for _, o := range list {
				if o.GetNamespace() != namespace {
					t.Errorf("%s %s is in the namespace %q", kind, o.GetName(), o.GetNamespace())
				}
			}
		}
		args := deployment(t, values).Spec.Template.Spec.Containers[0].Args
		if inside := slices.Contains(args, "--metrics-bind-address=127.0.0.1:8443"); inside != secure || slices.Contains(args, "--metrics-secure=true") {
			t.Errorf("secure=%t: %v", secure, args)
		}
	}
	if _, err := render(t, map[string]any{"namespaced": true, "serviceMonitor": map[string]any{"enabled": true}}); err == nil || !strings.Contains(err.Error(), "metrics.secure=false") {
		t.Errorf("metrics that nobody can reach are scraped: %v", err)
	}
}

// why says for what the operator needs a right; a right without a reason fails the test.
var why = map[string]string{
	"ramcloud.dev ramcloudclusters":            "what it looks after; it never changes a spec",
	"ramcloud.dev ramcloudservers":             "the record of each server",
	"ramcloud.dev ramcloudrecoveries":          "the record of each recovery; deleted when spec.recoveryHistoryLimit says so",
	"ramcloud.dev ramcloudclusters/status":     "to report",
	"ramcloud.dev ramcloudservers/status":      "to report",
	"ramcloud.dev ramcloudrecoveries/status":   "to report",
	"ramcloud.dev ramcloudclusters/finalizers": "owner references that block the owner's deletion, where the API server asks for it",
	" pods":                                     "coordinators, servers and etcd members; patched only to adopt what an orphaning delete left",
	" pods/resize":                              "servers get another size of memory while they run",
	" persistentvolumeclaims":                   "their volumes",
	" services":                                 "their addresses",
	" configmaps":                               "`<cluster>-connection`",
	" secrets":                                  "keys and certificates of managed etcds; one Secret in each namespace, and no other is ever seen",
	"networking.k8s.io networkpolicies":         "to close managed etcds to all but their coordinators, members and the operator",
	"apps controllerrevisions":                  "what pods are made from, so that a later operator makes them alike",
	"policy poddisruptionbudgets":               "to keep members from being evicted",
	"events.k8s.io events":                      "to tell what happened",
	" events":                                   "to tell who leads",
	"coordination.k8s.io leases":                "one operator acts at a time, and one for each namespace with clusters",
	"authentication.k8s.io tokenreviews":        "to ask the API server who comes for metrics",
	"authorization.k8s.io subjectaccessreviews": "to ask the API server whether they may",
}

// rights is the table of the operator's rights in docs/reference.
func rights(t *testing.T, values map[string]any) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| scope | API group | resource | verbs | why |\n|---|---|---|---|---|\n")
	list, ours := roles(t, values)
	for _, role := range list {
		scope := "everywhere"
		if role.Kind == "Role" {
			scope = "its own namespace"
		}
		for _, rule := range role.Rules {
			if !ours[role.Name] {
				continue // for people
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					reason := why[group+" "+resource]
					if reason == "" {
						t.Errorf("nobody says why the operator needs %s %s", group, resource)
					}
					if group == "" {
						group = "(core)"
					}
					name := "`" + resource + "`"
					if len(rule.ResourceNames) > 0 {
						name += " named `" + strings.Join(rule.ResourceNames, "`, `") + "`"
					}
					fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", scope, group, name, strings.Join(rule.Verbs, ", "), reason)
				}
			}
		}
	}
	return b.String()
}

func TestRightsAreDocumented(t *testing.T) {
	golden(t, top+"/docs/reference/operator-rights.md", "# The operator's rights\n\n"+
		"Written from charts/ramcloud-operator (`go test ./internal/charttest -update`). What `kubectl auth can-i --list\n"+
		"--as=system:serviceaccount:ramcloud-system:ramcloud-operator` shows beside these is what every service account has.\n"+
		"There is no right to Secrets of other names than `ramcloud-etcd`, to nodes, or to any resource by `*`.\n\n"+
		"## For clusters in all namespaces\n\n"+rights(t, nil)+
		"\n## For clusters in one namespace (`namespaced=true`)\n\nNothing beyond the namespace. CRDs belong to no namespace: with `crds.enabled=false` "+
		"the release needs no right to make them.\nMetrics are served inside the pod only, unless `metrics.secure=false`.\n\n"+
		rights(t, map[string]any{"namespaced": true}))
}

func TestRefusedValues(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"an unknown value":   {"imagee": map[string]any{}},
		"latest":             {"image": map[string]any{"tag": "latest"}},
		"a broken digest":    {"nodeImage": map[string]any{"digest": "sha256:12"}},
		"negative replicas":  {"replicas": -1},
		"an unknown level":   {"log": map[string]any{"level": "loud"}},
		"a privileged port":  {"metrics": map[string]any{"port": 80}},
		"no image":           {"image": map[string]any{"repository": ""}},
		"a policy of Docker": {"image": map[string]any{"pullPolicy": "Sometimes"}},
	} {
		if _, err := render(t, values); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestNotesNameTheNextStep(t *testing.T) {
	notes := mustRender(t, nil)["NOTES.txt"]
	for _, part := range []string{"kind: RAMCloudCluster", "kubectl wait rcc/demo", "no authentication"} {
		if !strings.Contains(notes, part) {
			t.Errorf("no %q in the notes", part)
		}
	}
}

// golden compares a file that is rendered from the chart, or writes it.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text {
		t.Errorf("%s is not what the chart renders; go test ./internal/charttest -update rewrites it", path)
	}
}

// manifests are the chart's objects for those without Helm.
func manifests(t *testing.T, values map[string]any, wanted func(unstructured.Unstructured) bool) string {
	t.Helper()
	files := mustRender(t, values)
	var b strings.Builder
	b.WriteString("# Rendered from charts/ramcloud-operator. Do not edit: go test ./internal/charttest -update\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") || strings.HasPrefix(name, "tests/") {
			continue
		}
		for _, object := range objects(t, files[name]) {
			if _, hook := object.GetAnnotations()["helm.sh/hook"]; hook || !wanted(object) {
				continue // hooks, which only Helm can run at the right time
			}
			labels := object.GetLabels()
			labels["app.kubernetes.io/managed-by"] = "kustomize"
			delete(labels, "helm.sh/chart")
			object.SetLabels(labels)
			text, err := yaml.Marshal(object.Object)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("---\n" + strings.ReplaceAll(string(text), "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kustomize"))
		}
	}
	return b.String()
}

// TestManifestsAreRenderedFromTheChart keeps manifests/, for those without Helm, the same.
func TestManifestsAreRenderedFromTheChart(t *testing.T) {
	all := func(unstructured.Unstructured) bool { return true }
	golden(t, top+"/manifests/operator/operator.yaml", manifests(t, map[string]any{"crds": map[string]any{"enabled": false}}, all))
	golden(t, top+"/manifests/monitoring/monitoring.yaml", manifests(t, monitored, func(o unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group == "monitoring.coreos.com" || o.GetKind() == "ConfigMap"
	}))
}

// monitored are the values that switch all of monitoring on.
var monitored = map[string]any{
	"crds":           map[string]any{"enabled": false},
	"serviceMonitor": map[string]any{"enabled": true}, "podMonitor": map[string]any{"enabled": true, "labels": map[string]any{"team": "a"}},
	"alerts": map[string]any{"enabled": true}, "dashboards": map[string]any{"enabled": true},
}

func kinds(t *testing.T, values map[string]any) map[string][]unstructured.Unstructured {
	t.Helper()
	out := map[string][]unstructured.Unstructured{}
	for name, text := range mustRender(t, values) {
		if strings.HasSuffix(name, ".yaml") {
			for _, o := range objects(t, text) {
				out[o.GetKind()] = append(out[o.GetKind()], o)
			}
		}
	}
	return out
}

func TestMonitoringIsOptional(t *testing.T) {
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy"} {
		if n := len(kinds(t, nil)[kind]); n != 0 {
			t.Errorf("%d %s although nobody asked", n, kind)
		}
	}
	got := kinds(t, monitored)
	for kind, want := range map[string]int{"ServiceMonitor": 1, "PodMonitor": 1, "PrometheusRule": 1, "ConfigMap": 2} {
		if len(got[kind]) != want {
			t.Errorf("%d %s, want %d", len(got[kind]), kind, want)
		}
	}
	if got["PodMonitor"][0].GetLabels()["team"] != "a" {
		t.Error("the PodMonitor lacks the label that was asked for")
	}
	endpoint := func(values map[string]any) map[string]any {
		spec := kinds(t, values)["ServiceMonitor"][0].Object["spec"].(map[string]any)
		return spec["endpoints"].([]any)[0].(map[string]any)
	}
	if endpoint(monitored)["scheme"] != "https" {
		t.Error("metrics that ask for a name are scraped without one")
	}
	plain := maps.Clone(monitored)
	plain["metrics"] = map[string]any{"secure": false}
	if endpoint(plain)["scheme"] != nil {
		t.Error("plain metrics are scraped over HTTPS")
	}
}

func TestMetricsNeedALeave(t *testing.T) {
	if args := deployment(t, nil).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--metrics-secure=true") {
		t.Errorf("%v", args)
	}
	names := func(values map[string]any) (out []string) {
		for _, o := range kinds(t, values)["ClusterRole"] {
			out = append(out, o.GetName())
		}
		return out
	}
	if have := names(nil); !slices.Contains(have, "ramcloud-operator-metrics-reader") || !slices.Contains(have, "ramcloud-operator-metrics-auth") {
		t.Errorf("%v", have)
	}
	if have := names(map[string]any{"metrics": map[string]any{"secure": false}}); slices.Contains(have, "ramcloud-operator-metrics-auth") {
		t.Errorf("rights that nobody needs: %v", have)
	}
}

func TestAvailability(t *testing.T) {
	if d := deployment(t, nil); *d.Spec.Replicas != 2 || len(kinds(t, nil)["PodDisruptionBudget"]) != 1 {
		t.Errorf("%d replicas", *d.Spec.Replicas)
	}
	if n := len(kinds(t, map[string]any{"replicas": 1})["PodDisruptionBudget"]); n != 0 {
		t.Error("a budget for one operator lets no node be drained")
	}
	for _, budget := range kinds(t, nil)["PodDisruptionBudget"] {
		if policy, _, _ := unstructured.NestedString(budget.Object, "spec", "unhealthyPodEvictionPolicy"); policy != "AlwaysAllow" {
			t.Errorf("a broken operator keeps its node from being drained: %q", policy)
		}
	}
	policy := kinds(t, map[string]any{"networkPolicy": map[string]any{"enabled": true, "metricsFrom": []any{map[string]any{"podSelector": map[string]any{}}}}})["NetworkPolicy"]
	if len(policy) != 1 {
		t.Fatalf("%d policies", len(policy))
	}
	if ingress, _, _ := unstructured.NestedSlice(policy[0].Object, "spec", "ingress"); len(ingress) != 2 || ingress[0].(map[string]any)["from"] == nil {
		t.Errorf("%v", ingress)
	}
}

// Before the operator is uninstalled its finalizers go, or namespaces would hang.
func TestAnUninstallLetsVolumesGo(t *testing.T) {
	for _, namespaced := range []bool{false, true} {
		jobs := kinds(t, map[string]any{"namespaced": namespaced})["Job"]
		if len(jobs) != 1 || jobs[0].GetAnnotations()["helm.sh/hook"] != "pre-delete" {
			t.Fatalf("%v", jobs)
		}
		containers, _, _ := unstructured.NestedSlice(jobs[0].Object, "spec", "template", "spec", "containers")
		args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		want := []string{"--release-volumes"}
		if namespaced {
			want = append(want, "--namespace="+namespace)
		}
		account, _, _ := unstructured.NestedString(jobs[0].Object, "spec", "template", "spec", "serviceAccountName")
		if !slices.Equal(args, want) || account != "ramcloud-operator" {
			t.Errorf("%v as %s", args, account)
		}
	}
}

// The pods of clusters have a PriorityClass by default. It belongs to no namespace, so a namespaced release has none.
func TestMembersHaveAPriorityClass(t *testing.T) {
	type fields = map[string]any
	for name, test := range map[string]struct {
		values fields
		made   int
		flag   string // empty: none
	}{
		"default":    {nil, 1, "--priority-class=ramcloud-operator-members"},
		"another":    {fields{"memberPriority": fields{"className": "gold"}}, 0, "--priority-class=gold"},
		"none":       {fields{"memberPriority": fields{"create": false}}, 0, ""},
		"namespaced": {fields{"namespaced": true}, 0, ""},
	} {
		var flag string
		for _, arg := range deployment(t, test.values).Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--priority-class") {
				flag = arg
			}
		}
		made := kinds(t, test.values)["PriorityClass"]
		if len(made) != test.made || flag != test.flag {
			t.Errorf("%s: %d made, flag %q", name, len(made), flag)
		}
		for _, class := range made {
			if value, _, _ := unstructured.NestedFieldNoCopy(class.Object, "value"); value != any(1e6) || "--priority-class="+class.GetName() != flag {
				t.Errorf("%s: %v", name, class.Object)
			}
		}
	}
}

const clusterChart = top + "/charts/ramcloud-cluster"

// declared is the RAMCloudCluster that the chart ramcloud-cluster makes, decoded strictly.
func declared(t *testing.T, values map[string]any) (*ramcloudv1.RAMCloudCluster, map[string]string) {
	t.Helper()
	files, err := renderChart(t, clusterChart, "books", values)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &ramcloudv1.RAMCloudCluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects(t, files["cluster.yaml"])[0].Object, cluster, true); err != nil {
		t.Fatal(err)
	}
	return cluster, files
}

func TestClusterChart(t *testing.T) {
	cluster, files := declared(t, nil)
	if cluster.Name != "books" || *cluster.Spec.Servers.Replicas != 3 || cluster.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("%+v", cluster.ObjectMeta)
	}
	if len(objects(t, files["networkpolicy.yaml"])) != 0 {
		t.Error("a policy that nobody asked for")
	}
	test := objects(t, files["tests/put-get.yaml"])[0]
	if steps, _, _ := unstructured.NestedSlice(test.Object, "spec", "initContainers"); len(steps) != 2 || test.GetAnnotations()["helm.sh/hook"] != "test" ||
		test.GetLabels()["ramcloud.dev/cluster"] != "" { // the cluster's Service would select it
		t.Errorf("%v", test.Object)
	}
	for _, part := range []string{"wait rcc/books", "helm test books", "Its volumes stay", "no authentication"} {
		if !strings.Contains(files["NOTES.txt"], part) {
			t.Errorf("no %q in the notes:\n%s", part, files["NOTES.txt"])
		}
	}
	cluster, files = declared(t, map[string]any{"name": "other", "keep": false, "networkPolicy": map[string]any{"enabled": true, "clients": []any{map[string]any{}}},
		"spec": map[string]any{"coordinator": map[string]any{"replicas": 3}, "metadata": map[string]any{"managedEtcd": map[string]any{"replicas": 3}}}})
	if cluster.Name != "other" || cluster.Spec.Coordinator.Replicas != 3 || cluster.Spec.Metadata.ManagedEtcd.Replicas != 3 || len(cluster.Annotations) != 0 {
		t.Errorf("%+v", cluster)
	}
	if policy := objects(t, files["networkpolicy.yaml"]); len(policy) != 1 {
		t.Errorf("%d policies", len(policy))
	}
	for name, values := range map[string]map[string]any{
		"an unknown field":     {"spec": map[string]any{"server": map[string]any{}}},
		"two coordinators":     {"spec": map[string]any{"coordinator": map[string]any{"replicas": 2}}},
		"a name that is none":  {"name": "A.b"},
		"two kinds of etcd":    {"spec": map[string]any{"metadata": map[string]any{"etcd": map[string]any{}, "managedEtcd": map[string]any{}}}},
		"the image latest":     {"test": map[string]any{"image": "a/b:latest"}},
		"an unknown retention": {"spec": map[string]any{"pvcRetention": "Keep"}},
	} {
		if _, err := renderChart(t, clusterChart, "books", values); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestVersionsAgree: charts and the file VERSION name the same version.
func TestVersionsAgree(t *testing.T) {
	text, err := os.ReadFile(top + "/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(text))
	for _, path := range []string{chartPath, clusterChart} {
		chart, err := loader.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if chart.Metadata.Version != version || chart.Metadata.AppVersion != version {
			t.Errorf("%s is %s of %s, VERSION is %s", path, chart.Metadata.Version, chart.Metadata.AppVersion, version)
		}
	}
	values, err := chartutil.ReadValuesFile(clusterChart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if image, _ := values.PathValue("test.image"); image != "ramcloud/node:"+version {
		t.Errorf("test.image is %v", image)
	}
}
