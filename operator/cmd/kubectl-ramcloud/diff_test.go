package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// templated is a cluster whose templates the operator has recorded; image is that of each component's template, by state.
func templated(t *testing.T, images map[string]string) (c *ramcloudv1.RAMCloudCluster, objects []client.Object) {
	t.Helper()
	c = cluster("demo")
	c.Status.ObservedGeneration = c.Generation
	objects = append(objects, c)
	number := int64(0)
	for _, component := range []string{specs.ComponentCoordinator, specs.ComponentServer} {
		for _, state := range []string{specs.RevisionFormer, specs.RevisionCurrent, specs.RevisionPending} {
			image := images[component+" "+state]
			if image == "" {
				continue
			}
			number++
			template := specs.Template(c, component, specs.Defaults{Image: image})
			r, err := specs.ControllerRevision(c, specs.Revision{Template: template, Spec: c.Spec}, number, state, "")
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, r)
		}
	}
	return c, objects
}

// podFrom is a pod of the cluster; noted says whether it names its revision.
func podFrom(c *ramcloudv1.RAMCloudCluster, component, image string, index int32, noted bool) *corev1.Pod {
	template := specs.Template(c, component, specs.Defaults{Image: image})
	pod := specs.Instantiate(c, template, index, specs.NodePorts{}, specs.Trust{})
	if noted {
		pod.Annotations[specs.AnnotationRevision] = specs.RevisionName(c.Name, template)
	}
	return pod
}

func TestDiff(t *testing.T) {
	const one, two = "ramcloud/node:0.1.0", "ramcloud/node:0.2.0"
	current := map[string]string{"coordinator current": one, "server current": one}
	pending := map[string]string{"coordinator current": one, "coordinator pending": two, "server current": one, "server pending": two}
	rolled := map[string]string{"coordinator current": two, "server former": one, "server current": two}
	for name, test := range map[string]struct {
		images map[string]string
		noted  bool
		pods   [2]string // image of the coordinator, of the servers
		code   exitCode
		want   []string
	}{
		"nothing waits":                 {current, true, [2]string{one, one}, 0, nil},
		"nothing waits after adoption":  {current, false, [2]string{one, one}, 0, nil},
		"a later operator":              {pending, true, [2]string{one, one}, 1, []string{": demo-coordinator-0)\n+++ coordinator (", ": demo-server-0, demo-server-1)\n+++ server (", ": pending)\n", "-    image: " + one + "\n+    image: " + two}},
		"servers of a former template":  {rolled, true, [2]string{two, one}, 1, []string{"--- server (demo-server-", ": demo-server-0, demo-server-1)\n+++ server (", ": current)\n"}},
		"pods of an operator before":    {pending, false, [2]string{one, one}, 1, []string{": demo-coordinator-0)\n", "+    image: " + two}},
		"no pod was made from it (yet)": {map[string]string{"coordinator current": one, "server current": one, "server pending": two}, true, [2]string{one, ""}, 1, []string{": new pods)\n+++ server ("}},
	} {
		c, objects := templated(t, test.images)
		objects = append(objects, podFrom(c, specs.ComponentCoordinator, test.pods[0], 0, test.noted))
		for index := range int32(2) {
			if test.pods[1] != "" {
				objects = append(objects, podFrom(c, specs.ComponentServer, test.pods[1], index, test.noted))
			}
		}
		out, err := run(t, objects, "diff", "demo")
		var code exitCode
		if err != nil && !errors.As(err, &code) || code != test.code {
			t.Errorf("%s: %v, want exit code %d\n%s", name, err, test.code, out)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, out)
			}
		}
		if len(test.want) == 0 && out != "" {
			t.Errorf("%s: printed\n%s", name, out)
		}
	}
}

// The move of an etcd to TLS is in no template.
func TestDiffTellsOfTLS(t *testing.T) {
	c, objects := templated(t, map[string]string{"coordinator current": "ramcloud/node:1"})
	for stage, want := range map[string]bool{"": false, "Off": true, "Offered": false, "Required": false} {
		c.Status.Etcd.TLS = stage
		out, err := run(t, objects, "diff", "demo")
		if errors.Is(err, exitDiffers) != want || strings.Contains(out, "to TLS") != want {
			t.Errorf("%q: %v\n%s", stage, err, out)
		}
	}
}

// An error must not be reported as "nothing would change".
func TestDiffThatFails(t *testing.T) {
	c, objects := templated(t, map[string]string{"server current": "ramcloud/node:1"})
	broken := objects[1].DeepCopyObject().(*appsv1.ControllerRevision)
	broken.Data.Raw = []byte("{}")
	others := objects[1].DeepCopyObject().(*appsv1.ControllerRevision)
	others.OwnerReferences = nil
	for name, objects := range map[string][]client.Object{"no cluster": nil, "nothing recorded": {c}, "broken": {c, broken}, "another's": {c, others}} {
		out, err := runWith(t, objects, func(c *cobra.Command) { c.SetErr(io.Discard) }, "diff", "demo")
		if !errors.Is(err, exitDiffFailed) || strings.Contains(out, "---") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
