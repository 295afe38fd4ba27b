package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// requestFormat is the format of a restart request; it has milliseconds, so that two requests within a second
// differ.
const requestFormat = "2006-01-02T15:04:05.000Z07:00"

type restart struct {
	change
	component, member string
}

func (p *plugin) restartCommand() *cobra.Command {
	r := &restart{change: change{plugin: p}}
	command := r.command(&cobra.Command{
		Use: "restart [CLUSTER]", Short: "Restart the members of etcd, the coordinators and the servers, or some of them",
		Long: `Restarts the members of etcd, then the coordinators, then the servers, one at a time: the operator restarts the next
one when all others are ready. The next server waits until the cluster is whole: every tablet is served and every
segment has all replicas. With --wait the command returns when all were restarted.

--component restarts the members of one kind: the command restarts one after the other and waits for each. --member
restarts one member. Both evict pods, as kubectl drain does, so disruption budgets apply.

Only the operator restarts servers. It does not restart servers of a cluster without replicas, nor the only server of a
cluster, because their data would be lost.`,
		Example: "  kubectl ramcloud restart demo --wait\n  kubectl ramcloud restart demo --component=etcd\n" +
			"  kubectl ramcloud restart demo --member=demo-coordinator-0 --wait",
	}, r.run)
	command.Flags().StringVar(&r.component, "component", "", "only coordinator or etcd")
	command.Flags().StringVar(&r.member, "member", "", "only this member: the name of its pod")
	_ = command.RegisterFlagCompletionFunc("component",
		cobra.FixedCompletions([]string{specs.ComponentCoordinator, specs.ComponentEtcd}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("member", p.completeMember)
	return command
}

func (r *restart) run(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	names, err := r.chosen(c)
	if err != nil {
		return err
	}
	if isPaused(c) {
		return fmt.Errorf("%s/%s is paused, so the operator would not re-create the pod; first run kubectl ramcloud resume", c.Namespace, c.Name)
	}
	if r.component == "" && r.member == "" {
		return r.all(ctx, c)
	}
	for i, name := range names {
		if err := r.one(ctx, c, name, r.wait || i < len(names)-1); err != nil {
			return err
		}
	}
	return nil
}

// members are the names of the pods that can be restarted, by component, in the order of restarts.
func members(c *ramcloudv1.RAMCloudCluster) (etcd, coordinators []string) {
	for i := range specs.WantedEtcd(c) {
		etcd = append(etcd, specs.EtcdName(c.Name, i))
	}
	for i := range specs.WantedCoordinators(c) {
		coordinators = append(coordinators, specs.CoordinatorName(c.Name, i))
	}
	return etcd, coordinators
}

// servers are the names of the servers' pods, if the operator restarts them.
func servers(c *ramcloudv1.RAMCloudCluster) (names []string) {
	o := plan.Observed{ReplicationFactor: specs.ReplicationFactor(c), Wanted: max(specs.WantedServers(c), c.Status.Servers.Replicas)}
	if plan.NeverRestarts(o, plan.Member{ID: plan.ID{Kind: plan.Server}}) != "" {
		return nil
	}
	for i := range o.Wanted {
		names = append(names, specs.ServerName(c.Name, i))
	}
	return names
}

// chosen are the members that the flags select; without flags all.
func (r *restart) chosen(c *ramcloudv1.RAMCloudCluster) ([]string, error) {
	etcd, coordinators := members(c)
	all := slices.Concat(etcd, coordinators)
	const noServer = "only the operator restarts servers, in a restart of all (kubectl ramcloud restart without --component and --member)"
	switch {
	case r.component != "" && r.member != "":
		return nil, notAccepted("--component is %s and --member is %s; accepted: one of them", r.component, r.member)
	case r.component == specs.ComponentServer:
		return nil, notAccepted("--component is server: %s; accepted: coordinator, etcd", noServer)
	case r.component == specs.ComponentEtcd && len(etcd) == 0:
		return nil, notAccepted("--component is etcd, and the operator runs none for %s/%s; accepted: coordinator", c.Namespace, c.Name)
	case r.component == specs.ComponentEtcd:
		return etcd, nil
	case r.component == specs.ComponentCoordinator:
		return coordinators, nil
	case r.component != "":
		return nil, notAccepted("--component is %s; accepted: coordinator, etcd", r.component)
	case r.member == "" || slices.Contains(all, r.member):
		return slices.DeleteFunc(all, func(name string) bool { return r.member != "" && name != r.member }), nil
	case strings.HasPrefix(r.member, c.Name+"-server-"):
		return nil, notAccepted("--member is %s: %s; accepted: %s", r.member, noServer, strings.Join(all, ", "))
	}
	return nil, notAccepted("--member is %s; accepted: %s", r.member, strings.Join(all, ", "))
}

// all asks the operator for a rolling restart.
func (r *restart) all(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	request := time.Now().UTC().Format(requestFormat)
	_, err := r.apply(ctx, c, "restarted", func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = request })
	if err != nil || !r.waits() {
		return err
	}
	key := client.ObjectKeyFromObject(c)
	return r.await(ctx, "restarts", func(ctx context.Context) (bool, string, error) {
		var now ramcloudv1.RAMCloudCluster
		if err := r.plugin.client.Get(ctx, key, &now); err != nil {
			return false, "", err
		}
		pods, err := r.plugin.pods(ctx, &now)
		if err != nil {
			return false, "", err
		}
		return rolled(&now, pods, request)
	})
}

// rolled says whether all members were restarted for the request, and the progress.
func rolled(c *ramcloudv1.RAMCloudCluster, pods []corev1.Pod, request string) (done bool, state string, err error) {
	if now := c.Spec.Update.RestartRequest; now != request {
		return false, "", giveUp{fmt.Errorf("spec.update.restartRequest is now %q: somebody asked for another restart", now)}
	}
	upToDate := meta.FindStatusCondition(c.Status.Conditions, ramcloudv1.ConditionUpToDate)
	if upToDate != nil && upToDate.Reason == ramcloudv1.ReasonRollRefused && upToDate.ObservedGeneration == c.Generation {
		return false, "", giveUp{fmt.Errorf("the operator refuses the restart: %s", upToDate.Message)}
	}
	etcd, coordinators := members(c)
	all, ready := slices.Concat(etcd, coordinators, servers(c)), 0
	for i := range pods {
		if slices.Contains(all, pods[i].Name) && pods[i].Annotations[specs.AnnotationRestart] == request && notRunning(&pods[i]) == "" {
			ready++
		}
	}
	state = fmt.Sprintf("%d of %d", ready, len(all))
	progress := meta.FindStatusCondition(c.Status.Conditions, ramcloudv1.ConditionProgressing)
	if progress != nil && progress.Reason == ramcloudv1.ReasonRollingRestart {
		state += "; " + progress.Message
	}
	return ready == len(all), state, nil
}

// one evicts a member's pod, and waits for the next pod of the same name.
func (r *restart) one(ctx context.Context, c *ramcloudv1.RAMCloudCluster, name string, wait bool) error {
	key := types.NamespacedName{Namespace: c.Namespace, Name: name}
	var pod corev1.Pod
	if err := r.plugin.client.Get(ctx, key, &pod); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no pod %s now; kubectl ramcloud explain says why", name)
	} else if err != nil {
		return err
	}
	if !metav1.IsControlledBy(&pod, c) {
		return fmt.Errorf("pod %s does not belong to %s/%s", name, c.Namespace, c.Name)
	}
	if err := r.evict(ctx, &pod); err != nil {
		return err
	}
	if err := r.tell(&pod, "evicted"); err != nil || !wait || r.dryRun != dryRunNone {
		return err
	}
	return r.await(ctx, name, func(ctx context.Context) (bool, string, error) {
		var now corev1.Pod
		err := r.plugin.client.Get(ctx, key, &now)
		switch {
		case apierrors.IsNotFound(err):
			return false, "the pod is not created yet", nil
		case err != nil:
			return false, "", err
		case now.UID == pod.UID:
			return false, "the former pod ends", nil
		}
		why := notRunning(&now)
		return why == "", why, nil
	})
}

func (r *restart) evict(ctx context.Context, pod *corev1.Pod) error {
	if r.dryRun == dryRunClient {
		return nil
	}
	var options []client.SubResourceCreateOption
	deletion := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if r.dryRun == dryRunServer {
		options, deletion.DryRun = append(options, client.DryRunAll), []string{metav1.DryRunAll}
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: deletion}
	err := r.plugin.client.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction, options...)
	if apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("pod %s is needed now, because another member is not ready: %w", pod.Name, err)
	}
	return err
}
