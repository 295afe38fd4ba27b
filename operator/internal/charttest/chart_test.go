// Package charttest tests the chart ramcloud-operator with Helm's own code, and keeps the plain
// manifests, which are rendered from it, equal to it.
package charttest

import (
	"flag"
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
)

var update = flag.Bool("update", false, "write manifests/operator/operator.yaml anew from the chart")

const (
	top       = "../../.."
	chartPath = top + "/charts/ramcloud-operator"
	namespace = "ramcloud-system"
)

// render gives the chart's files for values as a user would set them.
func render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: "ramcloud-operator", Namespace: namespace, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		out[strings.TrimPrefix(name, "ramcloud-operator/templates/")] = text
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
	if len(kept) != 2 {
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

func TestRights(t *testing.T) {
	for _, namespaced := range []bool{false, true} {
		var roles []rbacv1.ClusterRole
		for _, o := range objects(t, mustRender(t, map[string]any{"namespaced": namespaced})["rbac.yaml"]) {
			if !strings.HasSuffix(o.GetKind(), "Role") {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &role, true); err != nil {
				t.Fatal(err)
			}
			roles = append(roles, role)
			if o.GetName() == "ramcloud-operator" && (o.GetKind() == "Role") != namespaced {
				t.Errorf("namespaced=%t gives a %s", namespaced, o.GetKind())
			}
		}
		for _, role := range roles {
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
					t.Errorf("%s has everything: %+v", role.Name, rule)
				}
				if slices.Contains(rule.Resources, "secrets") && (slices.Contains(rule.Verbs, "list") || slices.Contains(rule.Verbs, "watch")) {
					t.Errorf("%s may list Secrets", role.Name)
				}
			}
		}
	}
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

// TestManifestsAreRenderedFromTheChart keeps manifests/operator, for those without Helm, the same.
func TestManifestsAreRenderedFromTheChart(t *testing.T) {
	files := mustRender(t, map[string]any{"crds": map[string]any{"enabled": false}})
	var b strings.Builder
	b.WriteString("# Rendered from charts/ramcloud-operator. Do not edit: go test ./internal/charttest -update\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, object := range objects(t, files[name]) {
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
	path := filepath.Join(top, "manifests/operator/operator.yaml")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Error("manifests/operator/operator.yaml is not what the chart renders; go test ./internal/charttest -update writes it anew")
	}
}
