package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// witness watches clusters and the operator's events at the API server, so it sees every state, however
// short.
type witness struct {
	mutex    sync.Mutex
	seen     map[string][]string // the conditions of each object, or a server's state, in the order in which they came
	warnings []string
	marks    map[string]bool
	versions int
}

// watched objects, as far as a witness looks at them.
type told struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	Status struct {
		Conditions []struct{ Type, Status, Reason, LastTransitionTime string }
		State      string
	}
	Type, Reason, Note, ReportingController string // fields of an event
}

const markAnnotation = "e2e.ramcloud.dev/mark"

// watch begins to follow. The witness that it returns has seen only the present state.
func watch() *witness {
	GinkgoHelper()
	w := &witness{seen: map[string][]string{}, marks: map[string]bool{}}
	w.follow("ramcloudclusters")
	w.follow("ramcloudservers")
	w.follow("events.events.k8s.io", "--watch-only")
	w.settle()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	Expect(w.seen).NotTo(BeEmpty())
	w.warnings = nil // earlier ones
	return w
}

func (w *witness) follow(kind string, arguments ...string) {
	GinkgoHelper()
	command := exec.Command("kubectl", append([]string{"get", kind, "-A", "--watch", "-o", "json"}, arguments...)...)
	output, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	var reading sync.WaitGroup
	reading.Go(func() {
		for decoder := json.NewDecoder(output); ; {
			var object told
			if err := decoder.Decode(&object); err != nil {
				if !errors.Is(err, io.EOF) {
					_, _ = fmt.Fprintf(GinkgoWriter, "watching %s: %v\n", kind, err)
				}
				return
			}
			w.note(object)
		}
	})
	DeferCleanup(func() {
		_ = command.Process.Kill()
		reading.Wait()
		_ = command.Wait()
	})
}

func (w *witness) note(object told) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.versions++
	name := object.Kind + " " + object.Metadata.Namespace + "/" + object.Metadata.Name
	if mark := object.Metadata.Annotations[markAnnotation]; mark != "" {
		w.marks[object.Kind+" "+mark] = true
	}
	if object.Kind == "Event" {
		if object.ReportingController == "ramcloud-operator" && object.Type != "Normal" {
			w.warnings = append(w.warnings, fmt.Sprintf("%s: %s: %s", name, object.Reason, object.Note))
		}
		return
	}
	state := object.Status.State
	for _, c := range object.Status.Conditions {
		state += fmt.Sprintf("%s=%s %s since %s; ", c.Type, c.Status, c.Reason, c.LastTransitionTime)
	}
	if list := w.seen[name]; len(list) == 0 || list[len(list)-1] != state {
		w.seen[name] = append(list, state)
	}
}

// settle waits until the witness has seen all earlier writes: it writes to one object of each kind, and the
// API server reports the changes of a kind in order.
func (w *witness) settle() {
	GinkgoHelper()
	mark := fmt.Sprintf("m%d", time.Now().UnixNano())
	server := cluster + "-server-0"
	must(kubectl("annotate", "rcc", cluster, "--overwrite", markAnnotation+"="+mark))
	must(kubectl("annotate", "rcs", server, "--overwrite", markAnnotation+"="+mark))
	event, err := json.Marshal(map[string]any{"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata":  map[string]any{"name": mark, "namespace": "default", "annotations": map[string]string{markAnnotation: mark}},
		"eventTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), "type": "Normal", "reason": "Marked", "action": "Mark",
		"reportingController": "e2e", "reportingInstance": "e2e", "note": "everything before this was told",
		"regarding": map[string]any{"apiVersion": "ramcloud.dev/v1alpha1", "kind": "RAMCloudCluster", "namespace": "default", "name": cluster}})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		// A new watch of events reports only later ones, so the mark is written again until the witness has seen
		// it.
		_, err := run(event, "kubectl", "replace", "--force", "-f", "-")
		g.Expect(err).NotTo(HaveOccurred())
		w.mutex.Lock()
		defer w.mutex.Unlock()
		g.Expect(slices.Collect(maps.Keys(w.marks))).To(ContainElements("RAMCloudCluster "+mark, "RAMCloudServer "+mark, "Event "+mark))
	}, time.Minute, time.Second).Should(Succeed())
}

// nothingChanged checks that no condition and no server's state changed during the watch, not even for a
// moment, and that the operator wrote no Warning.
func (w *witness) nothingChanged() {
	GinkgoHelper()
	w.settle()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.seen)) {
		Expect(w.seen[name]).To(HaveLen(1), "%s:\n%s", name, strings.Join(w.seen[name], "\n"))
	}
	Expect(w.warnings).To(BeEmpty())
	check("of %d objects, in %d versions and events that the API server told of, no condition and no state changed; no warnings", len(w.seen), w.versions)
}
