// Command kubectl-ramcloud is a kubectl plugin: kubectl ramcloud status, servers, tables, top, connect, cli, logs,
// report, explain, version.
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
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// version is set by the linker: -X main.version=…
var version = "0.0.0-unknown"

// plugin is what all commands share.
type plugin struct {
	out        io.Writer
	kubeconfig string
	context    string
	namespace  string
	timeout    time.Duration

	config     *rest.Config
	client     client.Client
	kubernetes kubernetes.Interface
}

func main() {
	p := &plugin{out: os.Stdout}
	err := p.command().Execute()
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func (p *plugin) command() *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-ramcloud", Short: "Look at RAMCloud clusters on Kubernetes",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetOut(p.out)
	flags := root.PersistentFlags()
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig file; default as kubectl's")
	flags.StringVar(&p.context, "context", "", "context of the kubeconfig")
	flags.StringVarP(&p.namespace, "namespace", "n", "", "namespace; default: the context's")
	flags.DurationVar(&p.timeout, "timeout", 20*time.Second, "how long a command may take")
	one := func(use, short string, run func(context.Context, *ramcloudv1.RAMCloudCluster) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " [CLUSTER]", Short: short, Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
				defer cancel()
				cluster, err := p.cluster(ctx, args)
				if err != nil {
					return err
				}
				return run(ctx, cluster)
			},
		}
	}
	root.AddCommand(
		one("status", "Say in one screen how a cluster is and what it waits for", p.status),
		one("servers", "List the servers of a cluster", p.servers),
		one("tables", "List the tables of a cluster, asked from its coordinator", p.tables),
		one("explain", "Say why a cluster is not as spec asks for, and what to do", p.explain),
		p.topCommand(), p.cliCommand(), p.logsCommand(), p.reportCommand(),
		one("connect", "Print how to connect from inside, from outside and through port-forwarding", p.connect),
		&cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
			fmt.Fprintln(p.out, "kubectl-ramcloud", version)
		}},
	)
	root.SetContext(context.Background())
	return root
}

// dial finds the Kubernetes cluster as kubectl does.
func (p *plugin) dial() error {
	if p.client != nil {
		return nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: p.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("no way to reach Kubernetes: %w", err)
	}
	if p.namespace == "" {
		if p.namespace, _, err = loader.Namespace(); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), ramcloudv1.AddToScheme(scheme)); err != nil {
		return err
	}
	p.config = config
	if p.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return p.kube()
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
