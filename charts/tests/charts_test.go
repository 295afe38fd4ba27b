// Package tests checks the charts with Helm 4 beside Helm 3, and their alert rules and dashboards with
// Prometheus' own parser and engine. It is a module of its own, so that the operator does not depend on them.
package tests

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	loader3 "helm.sh/helm/v3/pkg/chart/loader"
	util3 "helm.sh/helm/v3/pkg/chartutil"
	engine3 "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	loader4 "helm.sh/helm/v4/pkg/chart/v2/loader"
	engine4 "helm.sh/helm/v4/pkg/engine"
)

type values = map[string]any

func render3(t *testing.T, path string, v values) (map[string]string, error) {
	t.Helper()
	chart, err := loader3.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := util3.DefaultCapabilities.Copy()
	capabilities.KubeVersion = util3.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	all, err := util3.ToRenderValues(chart, v, util3.ReleaseOptions{Name: "r", Namespace: "n", IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	return engine3.Render(chart, all)
}

func render4(t *testing.T, path string, v values) (map[string]string, error) {
	t.Helper()
	chart, err := loader4.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	version, err := common.ParseKubeVersion("v1.36.0")
	if err != nil {
		t.Fatal(err)
	}
	capabilities := *common.DefaultCapabilities
	capabilities.KubeVersion = *version
	all, err := util.ToRenderValues(chart, v, common.ReleaseOptions{Name: "r", Namespace: "n", IsInstall: true}, &capabilities)
	if err != nil {
		return nil, err
	}
	return engine4.Render(chart, all)
}

// TestHelm3AndHelm4Agree: both render the same objects, and refuse the same values.
func TestHelm3AndHelm4Agree(t *testing.T) {
	everything := values{
		"replicas": 1, "namespaced": true, "imagePullSecrets": []any{values{"name": "s"}}, "priorityClassName": "p",
		"serviceMonitor": values{"enabled": true}, "podMonitor": values{"enabled": true}, "alerts": values{"enabled": true},
		"dashboards": values{"enabled": true}, "networkPolicy": values{"enabled": true}, "metrics": values{"secure": false},
	}
	for name, test := range map[string]struct {
		chart   string
		values  values
		refused bool
	}{
		"operator":                     {"../ramcloud-operator", nil, false},
		"operator with everything":     {"../ramcloud-operator", everything, false},
		"operator with a wrong value":  {"../ramcloud-operator", values{"image": values{"tag": "latest"}}, true},
		"operator with a wrong period": {"../ramcloud-operator", values{"podMonitor": values{"interval": "often"}}, true},
		"cluster":                      {"../ramcloud-cluster", nil, false},
		"cluster with a policy": {"../ramcloud-cluster", values{"name": "x", "keep": false, "annotations": values{"a": "b"},
			"networkPolicy": values{"enabled": true, "clients": []any{values{"podSelector": values{}}}, "metricsFrom": []any{values{}}}}, false},
		"cluster with a wrong value": {"../ramcloud-cluster", values{"spec": values{"coordinator": values{"replicas": 2}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			three, err3 := render3(t, test.chart, test.values)
			four, err4 := render4(t, test.chart, test.values)
			if (err3 != nil) != test.refused || (err4 != nil) != test.refused {
				t.Fatalf("Helm 3: %v\nHelm 4: %v", err3, err4)
			}
			if diff := cmp.Diff(three, four); diff != "" {
				t.Errorf("-Helm 3 +Helm 4:\n%s", diff)
			}
			if !test.refused && len(three) < 4 {
				t.Errorf("only %d files", len(three))
			}
		})
	}
}
