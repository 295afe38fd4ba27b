package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// notInTemplate are annotations about the creation of a pod, which do not count as differences.
var notInTemplate = []string{AnnotationTemplate, AnnotationRestart, AnnotationRevision, AnnotationAuthorities, AnnotationCertificateUntil}

// maxDifferences limits the text about one pod.
const maxDifferences = 8

// Differences describes how a running pod differs from the wanted one; nil if both have the same template.
// Additions by the API server or Kubernetes do not count.
func Differences(live, wanted *corev1.Pod) []string {
	if live.Annotations[AnnotationTemplate] == wanted.Annotations[AnnotationTemplate] {
		return nil
	}
	out := named(live, wanted)
	if len(out) == 0 {
		out = append(out, "what a newer operator makes of the same spec")
	}
	return bounded(out)
}

// DifferencesBesideMemory is the same for a server that has the wanted memory, or gets it while it runs. The size of its
// hash table still counts, because it stays until a restart.
func DifferencesBesideMemory(live, wanted *corev1.Pod) []string {
	all := Differences(live, wanted)
	if all == nil {
		return nil
	}
	if beside := named(resized(live, wanted), wanted); len(beside) > 0 || len(named(live, wanted)) > 0 {
		return bounded(beside)
	}
	return all
}

func bounded(out []string) []string {
	if more := len(out) - maxDifferences; more > 0 {
		return append(out[:maxDifferences:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return out
}

// named are the differences in known fields.
func named(live, wanted *corev1.Pod) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(live.Spec.Containers) > 0 {
		have, want := live.Spec.Containers[0], wanted.Spec.Containers[0]
		if have.Image != want.Image {
			add("image: %s, wanted %s", have.Image, want.Image)
		}
		out = append(out, flagDifferences(have.Args, want.Args)...)
		if !sameQuantities(have.Resources.Requests, want.Resources.Requests) || !sameQuantities(have.Resources.Limits, want.Resources.Limits) {
			add("resources: %s, wanted %s", resourcesText(have.Resources), resourcesText(want.Resources))
		}
	}
	out = append(out, mapDifferences("label", live.Labels, wanted.Labels, false)...)
	out = append(out, mapDifferences("annotation", live.Annotations, wanted.Annotations, false)...)
	out = append(out, mapDifferences("nodeSelector", live.Spec.NodeSelector, wanted.Spec.NodeSelector, true)...)
	if !equality.Semantic.DeepEqual(live.Spec.Affinity, wanted.Spec.Affinity) {
		add("affinity")
	}
	for _, toleration := range wanted.Spec.Tolerations { // Kubernetes adds some, so only missing ones count
		if !slices.ContainsFunc(live.Spec.Tolerations, func(t corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, toleration) }) {
			add("tolerations")
			break
		}
	}
	if !equality.Semantic.DeepEqual(live.Spec.TopologySpreadConstraints, wanted.Spec.TopologySpreadConstraints) {
		add("topologySpread")
	}
	if wanted.Spec.PriorityClassName != "" && live.Spec.PriorityClassName != wanted.Spec.PriorityClassName {
		add("priorityClassName: %q, wanted %q", live.Spec.PriorityClassName, wanted.Spec.PriorityClassName)
	}
	return out
}

// flagDifferences compares command lines flag by flag.
func flagDifferences(have, want []string) (out []string) {
	before, after := flagMap(have), flagMap(want)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == stateFlag || name == membersFlag {
			continue // they matter only for the first start of a member without data
		}
		b, was := before[name]
		a, is := after[name]
		switch {
		case was && is && a != b:
			out = append(out, fmt.Sprintf("%s: %s, wanted %s", name, b, a))
		case was && !is:
			out = append(out, fmt.Sprintf("%s: %s, wanted without", name, b))
		case !was && is:
			out = append(out, fmt.Sprintf("%s: not given, wanted %s", name, a))
		}
	}
	return out
}

func flagMap(args []string) map[string]string {
	out := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		out[name] = value
	}
	return out
}

func mapDifferences(what string, have, want map[string]string, exact bool) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !slices.Contains(notInTemplate, key) && have[key] != want[key] {
			out = append(out, fmt.Sprintf("%s %s: %q, wanted %q", what, key, have[key], want[key]))
		}
	}
	if exact {
		for _, key := range slices.Sorted(maps.Keys(have)) {
			if _, wanted := want[key]; !wanted {
				out = append(out, fmt.Sprintf("%s %s: %q, wanted without", what, key, have[key]))
			}
		}
	}
	return out
}

func sameQuantities(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, quantity := range a {
		if other, there := b[name]; !there || other.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

func resourcesText(r corev1.ResourceRequirements) string {
	list := func(l corev1.ResourceList) string {
		var parts []string
		for name, quantity := range l {
			parts = append(parts, fmt.Sprintf("%s %s", name, quantity.String()))
		}
		slices.Sort(parts)
		return strings.Join(parts, " ")
	}
	return fmt.Sprintf("requests %s, limits %s", list(r.Requests), list(r.Limits))
}
