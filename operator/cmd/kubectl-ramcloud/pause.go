package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// setPaused removes the old name of the field, because the API server refuses both together.
func setPaused(c *ramcloudv1.RAMCloudCluster, paused bool) {
	c.Spec.Paused, c.Spec.DeprecatedPause = paused, false
}

func isPaused(c *ramcloudv1.RAMCloudCluster) bool { return c.Spec.Paused || c.Spec.DeprecatedPause }

func (p *plugin) pauseCommand() *cobra.Command {
	return p.pausing(true, "paused", metav1.ConditionTrue, &cobra.Command{
		Use: "pause [CLUSTER]", Short: "Stop the operator from changing a cluster",
		Long: "Sets spec.paused. The operator changes nothing of the cluster, but still updates its status. The cluster keeps\n" +
			"working, but a pod that ends is not re-created. With --wait the command returns when the operator has seen the change.",
	})
}

func (p *plugin) resumeCommand() *cobra.Command {
	return p.pausing(false, "resumed", metav1.ConditionFalse, &cobra.Command{
		Use: "resume [CLUSTER]", Short: "Let the operator manage a paused cluster again",
		Long: "Removes spec.paused. With --wait the command returns when the operator has seen the change.",
	})
}

func (p *plugin) pausing(paused bool, done string, seen metav1.ConditionStatus, command *cobra.Command) *cobra.Command {
	ch := &change{plugin: p}
	return ch.command(command, func(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
		var err error
		if isPaused(c) == paused {
			err = ch.tell(c, "already "+done)
		} else {
			_, err = ch.apply(ctx, c, done, func(c *ramcloudv1.RAMCloudCluster) { setPaused(c, paused) })
		}
		if err != nil || !ch.waits() {
			return err
		}
		key, generation := client.ObjectKeyFromObject(c), c.Generation
		return ch.await(ctx, "the operator", func(ctx context.Context) (bool, string, error) {
			var now ramcloudv1.RAMCloudCluster
			if err := p.client.Get(ctx, key, &now); err != nil {
				return false, "", err
			}
			condition := meta.FindStatusCondition(now.Status.Conditions, ramcloudv1.ConditionPaused)
			if condition == nil || condition.ObservedGeneration < generation {
				return false, "it has not seen the newest spec", nil
			}
			return condition.Status == seen, condition.Message, nil
		})
	})
}
