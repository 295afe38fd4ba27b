// Command kubectl-ramcloud is a kubectl plugin: kubectl ramcloud status|servers|tables|connect|version.
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
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
	"ramcloud.dev/operator/pkg/adminpb"
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

	config *rest.Config
	client client.Client
}

func main() {
	p := &plugin{out: os.Stdout}
	if err := p.command().Execute(); err != nil {
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
	p.client, err = client.New(config, client.Options{Scheme: scheme})
	return err
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

func (p *plugin) status(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	s := &c.Status
	if err := p.table(func(w io.Writer) {
		fmt.Fprintf(w, "Cluster\t%s/%s\t%s\n", c.Namespace, c.Name, s.Coordinator.ClusterUUID)
		fmt.Fprintf(w, "Servers\t%s up\t%d wanted, %d crashed incarnations\n", s.Servers.Summary, specs.WantedServers(c), s.Servers.Crashed)
		used, total := "-", "-"
		if s.Data.MemoryUsed != nil && s.Data.MemoryTotal != nil {
			used, total = s.Data.MemoryUsed.String(), s.Data.MemoryTotal.String()
		}
		fmt.Fprintf(w, "Data\t%s\t%d tables, %d tablets (%d unavailable), %d objects, %s of %s\n",
			s.Data.State, s.Data.Tables, s.Data.Tablets, s.Data.TabletsUnavailable, s.Data.Objects, used, total)
		fmt.Fprintf(w, "Replication\tR = %d\t%d of %d segments have all replicas\n",
			specs.ReplicationFactor(c), s.Data.Replication.FullyReplicated, s.Data.Replication.Segments)
	}); err != nil {
		return err
	}
	fmt.Fprintln(p.out)
	if err := p.table(func(w io.Writer) {
		fmt.Fprintln(w, "CONDITION\tSTATUS\tREASON\tMESSAGE")
		for _, condition := range s.Conditions {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}); err != nil {
		return err
	}
	if s.ObservedGeneration != c.Generation {
		fmt.Fprintln(p.out, "\nThe operator has not seen the newest spec yet. Is it running?  kubectl -n ramcloud-system get pods")
	}
	return nil
}

func (p *plugin) servers(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	var list ramcloudv1.RAMCloudServerList
	if err := p.client.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{specs.LabelCluster: c.Name}); err != nil {
		return err
	}
	return p.table(func(w io.Writer) {
		fmt.Fprintln(w, "SERVER\tSTATE\tID\tTABLETS\tUSED\tMEMORY\tNODE\tLOCATOR\tWHY")
		for _, s := range list.Items {
			used, total := "-", "-"
			if s.Status.MemoryUsed != nil && s.Status.MemoryTotal != nil {
				used, total = s.Status.MemoryUsed.String(), s.Status.MemoryTotal.String()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Status.State, s.Status.Incarnation, s.Status.Tablets,
				used, total, s.Status.Placement.Node, s.Status.Locator, s.Status.StateReason)
		}
	})
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
