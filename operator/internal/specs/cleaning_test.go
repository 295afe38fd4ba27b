package specs

import (
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// serverFlags are the flags of a server's pod that begin so.
func serverFlags(c *ramcloudv1.RAMCloudCluster, prefix string) (out []string) {
	for _, arg := range ServerPod(c, 0, Defaults{Image: "i"}, NodePorts{}).Spec.Containers[0].Args {
		if strings.HasPrefix(arg, prefix) {
			out = append(out, arg)
		}
	}
	return out
}

// cleaningModes are those that the API server accepts.
func cleaningModes(t *testing.T) (out []ramcloudv1.CleaningMode) {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/crds/ramcloud.dev_ramcloudclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, field := range []string{"spec", "servers", "cleaning", "mode"} {
		schema = schema.Properties[field]
	}
	for _, value := range schema.Enum {
		var mode ramcloudv1.CleaningMode
		if err := yaml.Unmarshal(value.Raw, &mode); err != nil {
			t.Fatal(err)
		}
		out = append(out, mode)
	}
	return out
}

// A mode that is accepted and reaches no server would be worse than one that is refused: who turns cleaning off has a reason.
func TestEveryCleaningModeReachesTheServers(t *testing.T) {
	modes := cleaningModes(t)
	if len(modes) != len(cleaningFlags) || !slices.Contains(modes, ramcloudv1.CleaningOff) {
		t.Fatalf("the schema has %v, and %d have a flag", modes, len(cleaningFlags))
	}
	seen := map[string]bool{}
	for _, mode := range modes {
		c := demo()
		c.Spec.Servers.Cleaning.Mode = mode
		flags := serverFlags(c, "--cleaning")
		if len(flags) != 1 || seen[flags[0]] {
			t.Errorf("%s: %q", mode, flags)
			continue
		}
		seen[flags[0]] = true
	}
	if !seen["--cleaning=off"] {
		t.Errorf("no mode turns cleaning off: %v", seen)
	}
}

// What is left out is the server's own default, with cores of its own or without.
func TestCleaningThatIsLeftOut(t *testing.T) {
	c := demo()
	for range 2 {
		if flags := serverFlags(c, "--clean"); len(flags) > 0 {
			t.Errorf("%q", flags)
		}
		c.Spec.Servers.CPU = &ramcloudv1.CPUSpec{Cores: 2, Reactors: 2}
	}
}

// No thread is an answer, too: the first reactor cleans.
func TestCleanerThreads(t *testing.T) {
	for cleaners, want := range map[int32]string{0: "--cleaner-threads=0", 3: "--cleaner-threads=3"} {
		c := demo()
		c.Spec.Servers.CPU = &ramcloudv1.CPUSpec{Cores: 4, Reactors: 1, Cleaners: &cleaners}
		if flags := serverFlags(c, "--clean"); !slices.Equal(flags, []string{want}) {
			t.Errorf("%q, want %s", flags, want)
		}
	}
}
