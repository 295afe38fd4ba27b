package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// fieldOwner is the owner of changed fields in managedFields.
const fieldOwner = client.FieldOwner("kubectl-ramcloud")

// Values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// change has the flags that all changing commands share, as in kubectl.
type change struct {
	plugin  *plugin
	dryRun  string
	wait    bool
	timeout time.Duration
	print   *genericclioptions.PrintFlags
}

// command adds the flags and runs `run` with the cluster.
func (ch *change) command(command *cobra.Command, run func(context.Context, *ramcloudv1.RAMCloudCluster) error) *cobra.Command {
	scheme, err := newScheme()
	if err != nil {
		panic(err) // constants
	}
	ch.print = genericclioptions.NewPrintFlags("").WithTypeSetter(scheme)
	ch.print.AddFlags(command)
	flags := command.Flags()
	flags.StringVar(&ch.dryRun, "dry-run", dryRunNone, "none, client (only print what would be changed) or server (let the API server check it, and keep nothing)")
	flags.BoolVar(&ch.wait, "wait", false, "wait until the operator has done it")
	flags.DurationVar(&ch.timeout, "timeout", 10*time.Minute, "how long the command may take, with --wait")
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{dryRunNone, dryRunClient, dryRunServer}, cobra.ShellCompDirectiveNoFileComp))
	command.Args, command.ValidArgsFunction = cobra.MaximumNArgs(1), ch.plugin.completeCluster
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, ch.dryRun) {
			return notAccepted("--dry-run is %s; accepted: none, client, server", ch.dryRun)
		}
		if _, err := ch.print.ToPrinter(); err != nil {
			return usageError{err}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), ch.timeout)
		defer cancel()
		cluster, err := ch.plugin.cluster(ctx, args)
		if err != nil {
			return err
		}
		return run(ctx, cluster)
	}
	return command
}

// apply edits the cluster's spec and prints what was done; changed is false if nothing changed. It reads the
// spec again, because c has old fields under their new names, and a patch must use the names in the API
// server.
func (ch *change) apply(ctx context.Context, c *ramcloudv1.RAMCloudCluster, done string, edit func(*ramcloudv1.RAMCloudCluster)) (changed bool, err error) {
	if err := ch.plugin.client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
		return false, err
	}
	before := c.DeepCopy()
	edit(c)
	if equality.Semantic.DeepEqual(before.Spec, c.Spec) {
		return false, ch.tell(c, "already "+done)
	}
	if ch.dryRun != dryRunClient {
		if err := ch.plugin.client.Patch(ctx, c, client.MergeFrom(before), ch.options()...); err != nil {
			return false, err
		}
	}
	return true, ch.tell(c, done)
}

// options of a request that changes something.
func (ch *change) options() []client.PatchOption {
	if ch.dryRun == dryRunServer {
		return []client.PatchOption{fieldOwner, client.DryRunAll}
	}
	return []client.PatchOption{fieldOwner}
}

// tell prints the object in the format of --output, or a line about what was done.
func (ch *change) tell(object client.Object, done string) error {
	switch ch.dryRun {
	case dryRunClient:
		done += " (dry run)"
	case dryRunServer:
		done += " (server dry run)"
	}
	ch.print.NamePrintFlags.Operation = done
	printer, err := ch.print.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(object, ch.plugin.out)
}

// waits: something was changed, and the command must wait for it.
func (ch *change) waits() bool { return ch.wait && ch.dryRun == dryRunNone }

// giveUp is an error for which waiting longer is useless.
type giveUp struct{ error }

// await polls until done, and prints each new state on standard error.
func (ch *change) await(ctx context.Context, what string, look func(context.Context) (done bool, state string, err error)) error {
	last := ""
	for {
		done, state, err := look(ctx)
		switch {
		case err == nil && done:
			return nil
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), errors.As(err, new(giveUp)):
			return err
		case err != nil && ctx.Err() == nil: // the API server may be back soon
			state = err.Error()
		}
		if state != "" && state != last {
			last = state
			fmt.Fprintf(ch.plugin.progress, "waiting for %s: %s\n", what, state)
		}
		select {
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			return timedOut{fmt.Errorf("waited %s for %s: %s", ch.timeout, what, last)}
		case <-time.After(ch.plugin.poll):
		}
	}
}
