// Command ramcloud-operator runs RAMCloud clusters on Kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/scope"
)

// version is set by the linker: -X main.version=…
var version = "0.0.0-unknown"

// options are the flags. Each can also come from the environment: --node-image from RAMCLOUD_NODE_IMAGE,
// --namespace from WATCH_NAMESPACE; a flag wins.
type options struct {
	nodeImage      string
	etcdImage      string
	priorityClass  string
	namespace      string
	metricsAddress string
	metricsSecure  bool
	probeAddress   string
	leaderElection bool
	leaderNS       string
	workers        int
	printVersion   bool
	releaseVolumes bool
	ipv6           bool // no flag: Kubernetes tells
}

func parse(name string, args []string, env func(string) string) (*options, *zap.Options, error) {
	o, logging := &options{}, &zap.Options{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&o.nodeImage, "node-image", env("RAMCLOUD_NODE_IMAGE"),
		"image of coordinators and servers where a cluster names none, for example ramcloud/node:0.1.0 (RAMCLOUD_NODE_IMAGE)")
	flags.StringVar(&o.etcdImage, "etcd-image", env("RAMCLOUD_ETCD_IMAGE"),
		"image of managed etcds where a cluster names none; empty: ramcloud/etcd of the operator's version (RAMCLOUD_ETCD_IMAGE)")
	flags.StringVar(&o.priorityClass, "priority-class", "",
		"PriorityClass of all pods of clusters, servers whose spec names another excepted; it must exist; empty: none")
	flags.StringVar(&o.namespace, "namespace", env("WATCH_NAMESPACE"),
		"only look after clusters in this namespace; empty: in all (WATCH_NAMESPACE)")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "host:port of the metrics; 0: none")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", false,
		"serve the metrics over HTTPS with a certificate of its own, and only to those whom the API server knows and allows (GET /metrics)")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "host:port of /healthz and /readyz")
	flags.BoolVar(&o.leaderElection, "leader-elect", false, "let only one of several operators act at a time")
	flags.StringVar(&o.leaderNS, "leader-election-namespace", "", "namespace of the lease, the operator's own; needed with --leader-elect")
	flags.IntVar(&o.workers, "workers", 2, "clusters that are looked after at the same time, 1 to 64")
	flags.BoolVar(&o.releaseVolumes, "release-volumes", false,
		"take the operator's finalizer off all volume claims and end: before it is uninstalled, so that they can be deleted without it")
	flags.BoolVar(&o.printVersion, "version", false, "print the version and end")
	logging.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, nil, fmt.Errorf("unexpected argument %q; only flags are accepted", flags.Arg(0))
	case o.workers < 1 || o.workers > 64:
		return nil, nil, fmt.Errorf("--workers is %d; accepted: 1 to 64", o.workers)
	case o.leaderElection && o.leaderNS == "":
		return nil, nil, errors.New("--leader-elect needs --leader-election-namespace; accepted: the namespace that the operator runs in")
	case o.nodeImage == "" && !o.printVersion && !o.releaseVolumes:
		return nil, nil, errors.New("--node-image is empty; accepted: an image such as ramcloud/node:0.1.0 (or set RAMCLOUD_NODE_IMAGE)")
	}
	o.ipv6 = isIPv6(env("KUBERNETES_SERVICE_HOST"))
	if o.etcdImage == "" {
		o.etcdImage = "ramcloud/etcd:" + version
	}
	return o, logging, nil
}

// isIPv6 says whether the address of the API server that Kubernetes gives every pod is IPv6. If so, the first
// address of all pods, and of Services without a family, is IPv6, too.
func isIPv6(apiServer string) bool {
	address, err := netip.ParseAddr(apiServer)
	return err == nil && address.Unmap().Is6()
}

func metricsOptions(o *options) metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.metricsAddress}
	if o.metricsSecure {
		out.SecureServing = true
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return out
}

// releaseVolumes removes the finalizers when the operator is uninstalled.
func releaseVolumes(ctx context.Context, o *options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot reach the Kubernetes API: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	n, err := operator.RemoveVolumeFinalizers(ctx, c, o.namespace, time.Now())
	fmt.Printf("the finalizers of %d volume claims were removed\n", n)
	return err
}

// backoff is the delay before a failed reconcile is retried: a raised quota is noticed within half a minute.
func backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 30*time.Second)
}

func run(o *options, logging *zap.Options) error {
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(logging)))
	log := ctrl.Log.WithName("setup")
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), ramcloudv1.AddToScheme(scheme)); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot reach the Kubernetes API: %w", err)
	}
	cacheOptions := operator.CacheOptions()
	if o.namespace != "" {
		cacheOptions.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: cacheOptions,
		Metrics:                metricsOptions(o),
		HealthProbeBindAddress: o.probeAddress,
		LeaderElection:         o.leaderElection, LeaderElectionID: scope.LeaseName, LeaderElectionNamespace: o.leaderNS,
		// A new operator need not wait for the lease of one that ended cleanly.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	for _, metrics := range []prometheus.Collector{clusterMetrics{mgr.GetClient()}, operator.ReconcileErrors} {
		if err := ctrlmetrics.Registry.Register(metrics); err != nil {
			return err
		}
	}
	reconciler := &operator.ClusterReconciler{
		Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("ramcloud-operator"), Namespace: o.leaderNS,
		Defaults: operator.Defaults{NodeImage: o.nodeImage, EtcdImage: o.etcdImage, PriorityClass: o.priorityClass, IPv6: o.ipv6},
		Version:  version,
	}
	if o.leaderElection && o.namespace == "" {
		leases, err := coordinationv1.NewForConfig(config)
		if err != nil {
			return err
		}
		reconciler.Leases = scope.NewLeases(leases, o.leaderNS, scope.DefaultTiming, ctrl.Log.WithName("scope"))
		if err := mgr.Add(reconciler.Leases); err != nil {
			return err
		}
	}
	controllerOptions := controller.Options{MaxConcurrentReconciles: o.workers, CacheSyncTimeout: 2 * time.Minute, RateLimiter: backoff()}
	if err := reconciler.SetupWithManager(mgr, coordinator.DefaultTuning, controllerOptions); err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	log.Info("starting", "version", version, "nodeImage", o.nodeImage)
	return mgr.Start(ctrl.SetupSignalHandler())
}

func main() {
	o, logging, err := parse(os.Args[0], os.Args[1:], os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	if o.printVersion {
		fmt.Println("ramcloud-operator", version)
		return
	}
	if o.releaseVolumes {
		err = releaseVolumes(ctrl.SetupSignalHandler(), o)
	} else {
		err = run(o, logging)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
