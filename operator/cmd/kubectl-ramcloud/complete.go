package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 3 * time.Second

// completeCluster offers the names of the namespace's clusters for the first argument.
func (p *plugin) completeCluster(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	var list ramcloudv1.RAMCloudClusterList
	if err := p.dial(); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	if err := p.client.List(ctx, &list, client.InNamespace(p.namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeMember offers the members of the named cluster, or of the only one.
func (p *plugin) completeMember(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := p.cluster(ctx, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	etcd, coordinators := members(c)
	return append(etcd, coordinators...), cobra.ShellCompDirectiveNoFileComp
}
