package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/specs"
)

// lastEvents prints the newest events about the cluster and its pods.
func (p *plugin) lastEvents(c *ramcloudv1.RAMCloudCluster, events []corev1.Event) {
	about := slices.DeleteFunc(events, func(e corev1.Event) bool {
		return e.InvolvedObject.Name != c.Name && !strings.HasPrefix(e.InvolvedObject.Name, c.Name+"-")
	})
	when := func(e corev1.Event) time.Time {
		if !e.LastTimestamp.IsZero() {
			return e.LastTimestamp.Time
		}
		return e.EventTime.Time
	}
	slices.SortFunc(about, func(a, b corev1.Event) int { return when(a).Compare(when(b)) })
	const most = 8
	if len(about) > most {
		about = about[len(about)-most:]
	}
	if len(about) > 0 {
		fmt.Fprintln(p.out, "\nLast events")
	}
	for _, e := range about {
		fmt.Fprintf(p.out, "  %s  %s  %s: %s\n", when(e).UTC().Format(time.RFC3339), e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

// aReadyPod is a pod of the cluster in which the command line can run.
func (p *plugin) aReadyPod(ctx context.Context, c *ramcloudv1.RAMCloudCluster) (*corev1.Pod, error) {
	pods, err := p.pods(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Labels[specs.LabelComponent] != specs.ComponentEtcd && notRunning(&pods[i]) == "" {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("no pod of %s/%s is ready; kubectl ramcloud explain says why", c.Namespace, c.Name)
}

func (p *plugin) cliCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cli [CLUSTER] -- COMMAND…", Short: "Run the ramcloud command line in a pod of the cluster", DisableFlagsInUseLine: true,
		Example:           "  kubectl ramcloud cli -- table list\n  kubectl ramcloud cli demo -- import users - <users.jsonl",
		ValidArgsFunction: p.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 || dash > 1 || dash == len(args) {
				return notAccepted("cli has the arguments %q; accepted: at most one name of a cluster, then -- and a command of ramcloud", args)
			}
			c, err := p.cluster(cmd.Context(), args[:dash])
			if err != nil {
				return err
			}
			pod, err := p.aReadyPod(cmd.Context(), c)
			if err != nil {
				return err
			}
			return p.exec(cmd.Context(), pod, append([]string{"/usr/bin/ramcloud", "--cluster", specs.CoordinatorAddress(c)}, args[dash:]...))
		},
	}
}

// exec runs a command in the pod's first container, with this process' standard input and outputs.
func (p *plugin) exec(ctx context.Context, pod *corev1.Pod, command []string) error {
	request := p.kubernetes.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: pod.Spec.Containers[0].Name, Command: command,
			Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(p.config, "POST", request.URL())
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: os.Stdin, Stdout: p.out, Stderr: os.Stderr})
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) {
		return exitCode(exit.ExitStatus()) // the command has printed its error
	}
	return err
}

type logOptions struct {
	component string
	follow    bool
	tail      int64
	since     time.Duration
}

func (p *plugin) logsCommand() *cobra.Command {
	var o logOptions
	command := &cobra.Command{
		Use: "logs [CLUSTER]", Short: "Print the logs of all pods of a cluster", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			if !slices.Contains([]string{"", specs.ComponentCoordinator, specs.ComponentServer, specs.ComponentEtcd}, o.component) {
				return notAccepted("--component is %s; accepted: coordinator, server, etcd", o.component)
			}
			return p.logs(cmd.Context(), c, o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.component, "component", "", "only coordinator, server or etcd")
	flags.BoolVarP(&o.follow, "follow", "f", false, "continue with new lines")
	flags.Int64Var(&o.tail, "tail", 50, "lines of each pod; -1: all")
	flags.DurationVar(&o.since, "since", 0, "only lines that are newer than this, for example 10m")
	return command
}

func (o logOptions) forPod() *corev1.PodLogOptions {
	out := &corev1.PodLogOptions{Follow: o.follow}
	if o.tail >= 0 {
		out.TailLines = &o.tail
	}
	if o.since > 0 {
		seconds := int64(o.since.Seconds())
		out.SinceSeconds = &seconds
	}
	return out
}

// logs prints the pods' logs line by line, each with the pod's name before it.
func (p *plugin) logs(ctx context.Context, c *ramcloudv1.RAMCloudCluster, o logOptions) error {
	pods, err := p.pods(ctx, c)
	if err != nil {
		return err
	}
	var (
		mutex   sync.Mutex
		running sync.WaitGroup
		errs    []error
	)
	show := func(pod string) {
		err := p.readLog(ctx, c.Namespace, pod, o.forPod(), func(line string) {
			mutex.Lock()
			defer mutex.Unlock()
			fmt.Fprintf(p.out, "%s  %s\n", pod, line)
		})
		if err != nil {
			mutex.Lock()
			defer mutex.Unlock()
			errs = append(errs, err)
		}
	}
	for _, pod := range pods {
		if o.component != "" && pod.Labels[specs.LabelComponent] != o.component {
			continue
		}
		if o.follow {
			running.Go(func() { show(pod.Name) })
		} else {
			show(pod.Name)
		}
	}
	running.Wait()
	return errors.Join(errs...)
}

func (p *plugin) readLog(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions, line func(string)) error {
	stream, err := p.kubernetes.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("the log of pod %s: %w", pod, err)
	}
	defer func() { _ = stream.Close() }()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line(lines.Text())
	}
	return lines.Err()
}

func (p *plugin) topCommand() *cobra.Command {
	interval, count := 2*time.Second, 0
	command := &cobra.Command{
		Use: "top [CLUSTER]", Short: "Show what each server does, as the coordinator reports it", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < 100*time.Millisecond {
				return notAccepted("--interval is %s; accepted: 100ms or more", interval)
			}
			c, err := p.cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return p.admin(cmd.Context(), c, func(admin adminpb.AdminClient) error {
				return p.top(cmd.Context(), admin, interval, count)
			})
		},
	}
	command.Flags().DurationVar(&interval, "interval", interval, "time between two updates")
	command.Flags().IntVar(&count, "count", count, "number of updates; 0: until interrupted")
	return command
}

// top prints the rates between two readings of the servers' counters.
func (p *plugin) top(ctx context.Context, admin adminpb.AdminClient, interval time.Duration, count int) error {
	before := map[uint64]*adminpb.ServerStats{}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		reply, err := admin.ListServers(ctx, &adminpb.ListServersRequest{})
		if err != nil {
			return fmt.Errorf("asking the coordinator for its servers: %w", err)
		}
		if n > 0 {
			if err := p.table(func(w io.Writer) { topTable(w, reply.Servers, before, interval) }); err != nil {
				return err
			}
		}
		for _, s := range reply.Servers {
			before[s.Id] = s.Stats
		}
		if count > 0 && n == count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func topTable(w io.Writer, servers []*adminpb.Server, before map[uint64]*adminpb.ServerStats, interval time.Duration) {
	rate := func(now, then uint64) uint64 {
		if now < then {
			return 0
		}
		return uint64(float64(now-then) / interval.Seconds())
	}
	const mib = 1 << 20
	live := func(s *adminpb.ServerStats) string {
		if !coordinator.TellsLive(s.GetHashTableBytes()) {
			return "-"
		}
		return fmt.Sprintf("%d MiB", s.GetLogBytesLive()/mib)
	}
	fmt.Fprintln(w, "SERVER\tREADS/S\tWRITES/S\tDELETES/S\tOBJECTS\tLIVE\tLOG\tLACKING\tLAG\tFRAMES")
	for _, s := range servers {
		if s.State != adminpb.ServerState_SERVER_UP {
			continue
		}
		now, then := s.GetStats(), before[s.Id]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%d of %d MiB\t%d\t%d B\t%d of %d\n", s.Name, rate(now.GetReads(), then.GetReads()),
			rate(now.GetWrites(), then.GetWrites()), rate(now.GetDeletes(), then.GetDeletes()), now.GetObjects(),
			live(now), now.GetLogBytesUsed()/mib, now.GetLogBytesTotal()/mib, now.GetSegmentsUnderReplicated(), now.GetUnreplicatedBytes(),
			now.GetBackupFramesUsed(), now.GetBackupFramesTotal())
	}
}

// kube is the typed client, which logs, exec and proxies need.
func (p *plugin) kube() error {
	if p.kubernetes != nil {
		return nil
	}
	var err error
	p.kubernetes, err = kubernetes.NewForConfig(p.config)
	return err
}
