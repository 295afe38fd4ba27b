package main

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// finding is one problem: what, why, and what to do.
type finding struct {
	what, why, advice string
}

func (f finding) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n  why  %s\n", f.what, f.why)
	if f.advice != "" {
		fmt.Fprintf(w, "  do   %s\n", f.advice)
	}
}

// advice says what to do about the reason of a condition.
var advice = map[string]string{
	ramcloudv1.ReasonTabletsUnavailable:      "other servers read the data from replicas; if it does not come back: docs/operating/troubleshooting.md, \"Getting data back\"",
	ramcloudv1.ReasonRecoveryBlocked:         "start the named servers with their volumes; the recovery then continues by itself: docs/operating/troubleshooting.md, \"A recovery does not end\"",
	ramcloudv1.ReasonRecoveryRunning:         "wait; if it takes long, kubectl ramcloud recoveries shows its progress and what it waits for",
	ramcloudv1.ReasonRecoveryWaitsForMemory:  "add servers (kubectl scale) or drop tables; the recovery continues by itself when there is enough memory",
	ramcloudv1.ReasonServersNotUp:            "look at the pods below; kubectl ramcloud logs shows their logs",
	ramcloudv1.ReasonFormerClusterNotGone:    "wait until it has ended; if the node of a pod no longer exists, make sure that it is off, then kubectl delete pod --force",
	ramcloudv1.ReasonCoordinatorNotAnswering: "look at the coordinator's pod: kubectl ramcloud logs --component coordinator; clients that are already running work without it",
	ramcloudv1.ReasonScaleInNotSupported:     "set spec.servers.replicas back to the number that is accepted",
	ramcloudv1.ReasonUnderReplicated:         "see that R + 1 servers in different failure domains are up and have free frames: kubectl ramcloud top",
	ramcloudv1.ReasonPodsFailing:             "kubectl describe the pod; it is re-created after the pause",
	ramcloudv1.ReasonVolumeNotOurs:           "rename or delete the volume claims, or give the cluster another name",
	ramcloudv1.ReasonMetadataVolumeLost:      "bring the volume back, or rebuild into a new cluster: docs/operating/storage.md",
	ramcloudv1.ReasonVolumeLost:              "the message says what the volume is kept for: docs/operating/storage.md",
	ramcloudv1.ReasonVolumeTerminating:       "somebody deleted a volume claim; it is kept, and the server works: docs/operating/storage.md",
	ramcloudv1.ReasonTooFewFailureDomains:    "add nodes or zones and delete pods that may move, or set spec.topologyKey to a label with enough values",
	ramcloudv1.ReasonFailureDomainMissing:    "label the nodes; pods get the labels when they are created",
	ramcloudv1.ReasonNetworkNotSupported:     "set spec.network to transport TCP and provider Pod",
	ramcloudv1.ReasonEtcdMembersDown:         "kubectl describe the pods; with one of three down the cluster works, with two no table can be created or dropped",
	ramcloudv1.ReasonCoordinatorsDown:        "kubectl describe the pods; the cluster works while one of them leads",
	ramcloudv1.ReasonServersSilent:           "check whether the coordinator's node reaches the servers' nodes: it may be the coordinator that is partitioned",
	ramcloudv1.ReasonReconcileFailed:         "the message has the API server's error, for example a quota, an admission policy or a missing permission",
	ramcloudv1.ReasonIdentityChanged:         "restore the earlier metadata (volume, etcd or prefix); the operator changes nothing before that: docs/operating/troubleshooting.md",
	ramcloudv1.ReasonResizeInfeasible:        "set the size to what is accepted, let the storage class grow volumes (allowVolumeExpansion: docs/operating/storage.md), or restart servers for their memory: docs/operating/troubleshooting.md",
	ramcloudv1.ReasonRollPending:             "kubectl ramcloud diff shows what a rolling restart would change: docs/operating/upgrades.md",
	ramcloudv1.ReasonRollRefused:             "upgrade by one minor version at a time: docs/operating/upgrades.md, \"Two versions at a time\"",
	ramcloudv1.ReasonPaused:                  "kubectl ramcloud resume lets the operator continue",
	ramcloudv1.ReasonDeprecatedFieldsUsed:    "write the new fields and values before the next minor version is installed",
}

// findings are all reasons why the cluster differs from the spec, the worst first.
func (p *plugin) findings(ctx context.Context, c *ramcloudv1.RAMCloudCluster) ([]finding, error) {
	var out []finding
	seen := map[string]bool{}
	add := func(kind string, bad metav1.ConditionStatus) {
		condition := meta.FindStatusCondition(c.Status.Conditions, kind)
		if condition == nil || condition.Status != bad || seen[condition.Reason] {
			return
		}
		seen[condition.Reason] = true
		out = append(out, finding{kind + " is " + string(bad) + ": " + condition.Reason, condition.Message, advice[condition.Reason]})
	}
	add(ramcloudv1.ConditionDegraded, metav1.ConditionTrue)
	add(ramcloudv1.ConditionConsistentIdentity, metav1.ConditionFalse)
	add(ramcloudv1.ConditionReady, metav1.ConditionFalse)
	add(ramcloudv1.ConditionReady, metav1.ConditionUnknown)
	add(ramcloudv1.ConditionRecovering, metav1.ConditionTrue)
	add(ramcloudv1.ConditionScaleBlocked, metav1.ConditionTrue)
	add(ramcloudv1.ConditionPaused, metav1.ConditionTrue)
	if condition := meta.FindStatusCondition(c.Status.Conditions, ramcloudv1.ConditionResizing); condition != nil &&
		condition.Reason == ramcloudv1.ReasonResizeInfeasible {
		add(ramcloudv1.ConditionResizing, condition.Status)
	}
	add(ramcloudv1.ConditionDeprecatedFields, metav1.ConditionTrue)
	if condition := meta.FindStatusCondition(c.Status.Conditions, ramcloudv1.ConditionProgressing); condition != nil &&
		condition.Reason == ramcloudv1.ReasonRollingRestart {
		add(ramcloudv1.ConditionProgressing, metav1.ConditionTrue)
	}
	if condition := meta.FindStatusCondition(c.Status.Conditions, ramcloudv1.ConditionUpToDate); condition != nil &&
		(condition.Reason == ramcloudv1.ReasonRollPending || condition.Reason == ramcloudv1.ReasonRollRefused) {
		add(ramcloudv1.ConditionUpToDate, metav1.ConditionFalse)
	}
	if len(c.Status.Conditions) == 0 || c.Status.ObservedGeneration != c.Generation {
		out = append(out, finding{"The operator has not seen the newest spec",
			fmt.Sprintf("status is of generation %d, spec of %d", c.Status.ObservedGeneration, c.Generation),
			"see that it runs: kubectl get pods -A -l app.kubernetes.io/name=ramcloud-operator"})
	}
	pods, err := p.pods(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if why := notRunning(&pods[i]); why != "" {
			out = append(out, finding{"Pod " + pods[i].Name + " is not ready", why,
				fmt.Sprintf("kubectl -n %s describe pod %s", c.Namespace, pods[i].Name)})
		}
	}
	return out, nil
}

func (p *plugin) pods(ctx context.Context, c *ramcloudv1.RAMCloudCluster) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := p.client.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{specs.LabelCluster: c.Name})
	return list.Items, err
}

// notRunning says in Kubernetes' words why a pod is not ready; empty when it is.
func notRunning(pod *corev1.Pod) string {
	text := string(pod.Status.Phase)
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue:
			return ""
		case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse:
			return "not scheduled: " + condition.Message
		}
	}
	if pod.Status.Reason != "" {
		text += ": " + pod.Status.Reason + " " + pod.Status.Message
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			text += fmt.Sprintf(": %s %s", waiting.Reason, waiting.Message)
		}
		if ended := container.LastTerminationState.Terminated; ended != nil {
			text += fmt.Sprintf(" (ended with exit code %d, %d restarts)", ended.ExitCode, container.RestartCount)
		}
	}
	return text
}

func (p *plugin) explain(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	findings, err := p.findings(ctx, c)
	if err != nil {
		return err
	}
	if len(findings) == 0 {
		fmt.Fprintf(p.out, "%s/%s is as spec asks for.\n", c.Namespace, c.Name)
	}
	for i, f := range findings {
		fmt.Fprintf(p.out, "%d. ", i+1)
		f.print(p.out)
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == ramcloudv1.ConditionProgressing {
			fmt.Fprintf(p.out, "\nProgress: %s\n", condition.Message)
		}
	}
	if held := c.Status.Servers.EvictionsHeld; held != "" {
		fmt.Fprintf(p.out, "\nkubectl drain waits, because no server may be evicted now: %s\n", held)
	}
	p.pending(&c.Status)
	var events corev1.EventList
	if err := p.client.List(ctx, &events, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	p.lastEvents(c, events.Items)
	return nil
}
