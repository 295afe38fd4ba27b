// Command kubectl-ramcloud is a kubectl plugin: it looks at RAMCloud clusters, restarts their members, and pauses the
// operator.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// version is set by the linker: -X main.version=…
var version = "0.0.0-unknown"

// plugin is the state that all commands share.
type plugin struct {
	out      io.Writer
	progress io.Writer                      // for progress messages; out has only the output that --output asks for
	poll     time.Duration                  // interval of polling
	flags    *genericclioptions.ConfigFlags // kubectl's own

	config     *rest.Config
	client     client.Client
	kubernetes kubernetes.Interface
	namespace  string
}

func newPlugin(out io.Writer) *plugin {
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir = nil // nothing is kept on disk
	return &plugin{out: out, progress: os.Stderr, poll: time.Second, flags: flags}
}

func main() {
	command := newPlugin(os.Stdout).command()
	began := false
	command.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	err := command.Execute()
	var ran exitCode
	if err != nil && !errors.As(err, &ran) { // a command in a pod has printed its error itself
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(codeOf(err, began))
}

func (p *plugin) command() *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-ramcloud", Short: "Look at RAMCloud clusters on Kubernetes, and restart or pause them",
		Long: `Looks at RAMCloud clusters on Kubernetes, restarts their members, and pauses the operator.

Without a name, a command uses the RAMCloudCluster of the namespace, if there is only one. Write kubectl's own flags
(--namespace, --context, --as, …) after the name of the plugin: kubectl ramcloud status --context=prod.

` + exitCodes,
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ramcloud"},
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetOut(p.out)
	p.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(
		p.aboutOne("status", "Show the state of a cluster, and what it waits for, on one screen", p.status),
		p.aboutOne("servers", "List the servers of a cluster", p.servers),
		p.aboutOne("recoveries", "List the recoveries of crashed servers, and what they wait for", p.recoveries),
		p.aboutOne("tables", "List the tables of a cluster, as its coordinator reports them", p.tables),
		p.aboutOne("explain", "Explain why a cluster differs from its spec, and what to do", p.explain),
		p.diffCommand(), p.topCommand(), p.cliCommand(), p.logsCommand(), p.reportCommand(),
		p.restartCommand(), p.pauseCommand(), p.resumeCommand(),
		p.aboutOne("connect", "Print how to connect from inside, from outside and through port-forwarding", p.connect),
		&cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
			fmt.Fprintln(p.out, "kubectl-ramcloud", version)
		}},
	)
	root.SetContext(context.Background())
	return root
}

// aboutOne is a command that shows one cluster and ends.
func (p *plugin) aboutOne(use, short string, run func(context.Context, *ramcloudv1.RAMCloudCluster) error) *cobra.Command {
	timeout := 20 * time.Second
	command := &cobra.Command{
		Use: use + " [CLUSTER]", Short: short, Args: cobra.MaximumNArgs(1), ValidArgsFunction: p.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			cluster, err := p.cluster(ctx, args)
			if err != nil {
				return err
			}
			return run(ctx, cluster)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", timeout, "how long the command may take")
	return command
}

// dial finds the Kubernetes cluster as kubectl does.
func (p *plugin) dial() error {
	loader := p.flags.ToRawKubeConfigLoader()
	var err error
	if p.namespace, _, err = loader.Namespace(); err != nil {
		return fmt.Errorf("cannot reach Kubernetes: %w", err)
	}
	if p.client != nil {
		return nil
	}
	if p.config, err = p.flags.ToRESTConfig(); err != nil {
		return fmt.Errorf("cannot reach Kubernetes: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if p.client, err = client.New(p.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return p.kube()
}

// newScheme has the types of Kubernetes and RAMCloud's own.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), ramcloudv1.AddToScheme(scheme))
}

// cluster is the named one or, without a name, the only one of the namespace.
func (p *plugin) cluster(ctx context.Context, args []string) (*ramcloudv1.RAMCloudCluster, error) {
	if err := p.dial(); err != nil {
		return nil, err
	}
	if len(args) == 1 {
		cluster := &ramcloudv1.RAMCloudCluster{}
		err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: args[0]}, cluster)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("there is no RAMCloudCluster '%s' in namespace '%s'; kubectl get rcc -A lists all", args[0], p.namespace)
		}
		cluster.Spec.Modernize()
		return cluster, err
	}
	var list ramcloudv1.RAMCloudClusterList
	if err := p.client.List(ctx, &list, client.InNamespace(p.namespace)); err != nil {
		return nil, err
	}
	var names []string
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	switch len(names) {
	case 1:
		list.Items[0].Spec.Modernize()
		return &list.Items[0], nil
	case 0:
		return nil, fmt.Errorf("there is no RAMCloudCluster in namespace '%s'; kubectl get rcc -A lists all", p.namespace)
	}
	return nil, fmt.Errorf("namespace '%s' has %d clusters, name one of: %s", p.namespace, len(names), strings.Join(names, ", "))
}

func (p *plugin) table(rows func(w io.Writer)) error {
	w := tabwriter.NewWriter(p.out, 0, 8, 2, ' ', 0)
	rows(w)
	return w.Flush()
}

func (p *plugin) tables(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	return p.admin(ctx, c, func(admin adminpb.AdminClient) error {
		reply, err := admin.ListTables(ctx, &adminpb.ListTablesRequest{})
		if err != nil {
			return fmt.Errorf("asking the coordinator for its tables: %w", err)
		}
		return p.table(func(w io.Writer) {
			fmt.Fprintln(w, "TABLE\tID\tTABLETS\tUNAVAILABLE\tSERVERS")
			for _, t := range reply.Tables {
				bad, servers := 0, map[uint64]bool{}
				for _, tablet := range t.Tablets {
					servers[tablet.ServerId] = true
					if tablet.State == adminpb.TabletState_TABLET_UNAVAILABLE {
						bad++
					}
				}
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", t.Name, t.Id, len(t.Tablets), bad, len(servers))
			}
		})
	})
}

func (p *plugin) connect(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	var connection corev1.ConfigMap
	key := client.ObjectKey{Namespace: c.Namespace, Name: specs.ConnectionName(c.Name)}
	if err := p.client.Get(ctx, key, &connection); err != nil {
		return fmt.Errorf("the operator has not published how to connect (ConfigMap %s): %w", key.Name, err)
	}
	if !metav1.IsControlledBy(&connection, c) {
		return fmt.Errorf("ConfigMap %s does not belong to this cluster", key.Name)
	}
	coordinator := specs.CoordinatorName(c.Name, 0)
	fmt.Fprintf(p.out, "Inside Kubernetes:\n  export RAMCLOUD_CLUSTER=%s\n\n", connection.Data["cluster"])
	if outside := connection.Data["cluster-outside"]; outside != "" {
		fmt.Fprintf(p.out, "Outside, where the nodes can be reached:\n  export RAMCLOUD_CLUSTER=%s\n\n", outside)
	} else {
		fmt.Fprintf(p.out, "Outside: not exposed. To expose it:\n"+
			"  kubectl -n %s patch rcc %s --type merge -p '{\"spec\":{\"expose\":{\"type\":\"NodePort\"}}}'\n"+
			"Pods that run keep advertising what they were started with.\n\n", c.Namespace, c.Name)
	}
	fmt.Fprintf(p.out, "From a pod of the cluster:\n  kubectl -n %s exec %s -- ramcloud --cluster %s status\n\n",
		c.Namespace, coordinator, connection.Data["cluster"])
	fmt.Fprintf(p.out, "Admin API through this machine (data needs every server, so it is not enough for reads and writes):\n"+
		"  kubectl -n %s port-forward pod/%s %d\n", c.Namespace, coordinator, specs.CoordinatorAdminPort)
	return nil
}
