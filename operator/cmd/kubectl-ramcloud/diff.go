package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// The exit codes of diff, the same as those of kubectl diff.
const (
	exitDiffers    = exitCode(1)
	exitDiffFailed = exitCode(2)
)

func (p *plugin) diffCommand() *cobra.Command {
	timeout := 20 * time.Second
	command := &cobra.Command{
		Use: "diff [CLUSTER]", Short: "Show what a rolling restart would change in the pods of a cluster", Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.completeCluster,
		Long: "Compares the templates of the pods of a cluster with those that the operator would use after a rolling restart. A new\n" +
			"text in spec.update.restartRequest asks for one: of etcd, then coordinators, then servers, one at a time. Pods that are\n" +
			"created later have the new templates, too. Values that differ from pod to pod are shown as ${ramcloud:name} and the\n" +
			"like.\n\n" +
			"Exit code 0: nothing would change. 1: something would change. 2: an error, so the result is not known.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			differs, err := p.diff(ctx, cmd, args)
			if err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "error:", err)
				return exitDiffFailed
			}
			if differs {
				return exitDiffers
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", timeout, "how long the command may take")
	return command
}

// made are the pods of a component with the same template.
type made struct {
	template corev1.PodTemplateSpec
	pods     []string
}

func (p *plugin) diff(ctx context.Context, cmd *cobra.Command, args []string) (differs bool, err error) {
	c, err := p.cluster(ctx, args)
	if err != nil {
		return false, err
	}
	if c.Status.ObservedGeneration != c.Generation {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: the operator has not seen the newest spec; this is about the one before")
	}
	var list appsv1.ControllerRevisionList
	if err := p.client.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{specs.LabelCluster: c.Name}); err != nil {
		return false, fmt.Errorf("reading what pods are made from: %w", err)
	}
	revisions := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, c) })
	pods, err := p.pods(ctx, c)
	if err != nil {
		return false, err
	}
	if len(revisions) == 0 {
		return false, errors.New("the operator has not recorded what pods are made from; it does once it has seen the cluster, if spec.paused is not set")
	}
	for _, component := range []string{specs.ComponentEtcd, specs.ComponentCoordinator, specs.ComponentServer} {
		one, err := p.diffComponent(c, component, revisions, pods)
		if err != nil {
			return false, err
		}
		differs = differs || one
	}
	if specs.TLSStage(c) == plan.TLSOff { // TLS is not part of a template
		fmt.Fprintln(p.out, "A roll also moves the connections of the etcd from plain ones to TLS: etcd and coordinators are restarted in stages.")
		differs = true
	}
	return differs, nil
}

// diffComponent prints how the pods of a component differ from those after a roll.
func (p *plugin) diffComponent(c *ramcloudv1.RAMCloudCluster, component string, revisions []appsv1.ControllerRevision, pods []corev1.Pod) (bool, error) {
	templates := map[string]corev1.PodTemplateSpec{}
	newest := map[string]*appsv1.ControllerRevision{} // by state
	for i := range revisions {
		r := &revisions[i]
		if r.Labels[specs.LabelComponent] != component {
			continue
		}
		revision, err := specs.ReadRevision(r)
		if err != nil {
			return false, err
		}
		templates[r.Name] = revision.Template
		if state := r.Labels[specs.LabelRevisionState]; newest[state] == nil || newest[state].Revision < r.Revision {
			newest[state] = r
		}
	}
	current, target := newest[specs.RevisionCurrent], newest[specs.RevisionPending]
	if current == nil {
		return false, nil // the cluster has no such members
	}
	word := "pending"
	if target == nil {
		target, word = current, "current"
	}
	groups := madeFrom(c, component, templates, pods)
	if groups[current.Name] == nil {
		groups[current.Name] = &made{template: templates[current.Name], pods: []string{"new pods"}}
	}
	differs := false
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if name == target.Name {
			continue
		}
		differs = true
		from := fmt.Sprintf("%s (%s: %s)", component, name, strings.Join(groups[name].pods, ", "))
		if err := p.unified(from, fmt.Sprintf("%s (%s: %s)", component, target.Name, word), groups[name].template, templates[target.Name]); err != nil {
			return false, err
		}
	}
	return differs, nil
}

// madeFrom groups the pods of a component by their template: the one that the operator noted, or, for pods
// without a note, the one computed from the pod.
func madeFrom(c *ramcloudv1.RAMCloudCluster, component string, templates map[string]corev1.PodTemplateSpec, pods []corev1.Pod) map[string]*made {
	groups := map[string]*made{}
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[specs.LabelComponent] != component || pod.DeletionTimestamp != nil || !metav1.IsControlledBy(pod, c) {
			continue
		}
		name := pod.Annotations[specs.AnnotationRevision]
		template, known := templates[name]
		if !known {
			template = specs.TemplateOf(pod)
			name = specs.RevisionName(c.Name, template)
		}
		if groups[name] == nil {
			groups[name] = &made{template: template}
		}
		groups[name].pods = append(groups[name].pods, pod.Name)
	}
	for _, group := range groups {
		slices.Sort(group.pods)
	}
	return groups
}

// unified prints two templates as a unified diff.
func (p *plugin) unified(from, to string, a, b corev1.PodTemplateSpec) error {
	before, err := yaml.Marshal(a)
	if err != nil {
		return err
	}
	after, err := yaml.Marshal(b)
	if err != nil {
		return err
	}
	return difflib.WriteUnifiedDiff(p.out, difflib.UnifiedDiff{
		A: difflib.SplitLines(string(before)), B: difflib.SplitLines(string(after)), FromFile: from, ToFile: to, Context: 3,
	})
}
