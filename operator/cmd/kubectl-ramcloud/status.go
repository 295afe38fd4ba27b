package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// health is the cluster in one word, and the condition that decides it.
func health(s *ramcloudv1.RAMCloudClusterStatus) (string, *metav1.Condition) {
	is := func(kind string, value metav1.ConditionStatus) *metav1.Condition {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil && c.Status == value {
			return c
		}
		return nil
	}
	if c := is(ramcloudv1.ConditionDegraded, metav1.ConditionTrue); c != nil {
		return "DEGRADED", c
	}
	if c := is(ramcloudv1.ConditionReady, metav1.ConditionFalse); c != nil {
		return "NOT READY", c
	}
	if c := is(ramcloudv1.ConditionScaleBlocked, metav1.ConditionTrue); c != nil {
		return "BLOCKED", c
	}
	if c := is(ramcloudv1.ConditionReady, metav1.ConditionTrue); c != nil {
		return "HEALTHY", c
	}
	return "UNKNOWN", nil
}

func (p *plugin) status(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	s := &c.Status
	word, because := health(s)
	fmt.Fprintf(p.out, "%s/%s  %s", c.Namespace, c.Name, word)
	if because != nil {
		fmt.Fprintf(p.out, "  %s", because.Reason)
	}
	fmt.Fprint(p.out, "\n\n")
	if err := p.table(func(w io.Writer) { figures(w, c) }); err != nil {
		return err
	}
	findings, err := p.findings(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.out)
	if len(findings) == 0 {
		fmt.Fprintln(p.out, "It waits for nothing.")
	}
	for _, f := range findings {
		f.print(p.out)
	}
	p.pending(s)
	return nil
}

// figures prints the rows that every cluster has.
func figures(w io.Writer, c *ramcloudv1.RAMCloudCluster) {
	s := &c.Status
	fmt.Fprintf(w, "Servers\t%s up\t%d wanted, %d crashed incarnations\n", s.Servers.Summary, specs.WantedServers(c), s.Servers.Crashed)
	fmt.Fprintf(w, "Coordinators\t%d/%d ready\tversion %s, term %d, cluster %s\n", s.Coordinator.Ready, specs.WantedCoordinators(c),
		orDash(s.Coordinator.Version), s.Coordinator.Term, orDash(s.Coordinator.ClusterUUID))
	switch wanted := specs.WantedEtcd(c); {
	case wanted > 0:
		fmt.Fprintf(w, "Metadata\t%d/%d ready\tetcd of the operator's\n", s.Etcd.Ready, wanted)
	case specs.MetadataOnVolume(c):
		fmt.Fprint(w, "Metadata\ton a volume\tof the coordinator's\n")
	default:
		fmt.Fprintf(w, "Metadata\texternal etcd\t%s\n", strings.Join(c.Spec.Metadata.Etcd.Endpoints, ", "))
	}
	fmt.Fprintf(w, "Data\t%s\t%d tables, %d tablets (%d unavailable), %d objects\n", orDash(string(s.Data.State)),
		s.Data.Tables, s.Data.Tablets, s.Data.TabletsUnavailable, s.Data.Objects)
	fmt.Fprintf(w, "Memory\t%s live\t%s in use, of %s\n", size(s.Data.MemoryLive), size(s.Data.MemoryUsed), size(s.Data.MemoryTotal))
	fmt.Fprintf(w, "Replication\t%s\t%d of %d segments have all replicas, %d lack some\n", replicationFactor(c),
		s.Data.Replication.FullyReplicated, s.Data.Replication.Segments, s.Data.Replication.UnderReplicated)
	if n := s.Data.SurvivesServers; n != nil {
		fmt.Fprintf(w, "Survives\t%d servers\tthat crash at the same time, whichever they are\n", *n)
	} else {
		fmt.Fprint(w, "Survives\tnot known\tor no server may crash now\n")
	}
	if held := s.Servers.EvictionsHeld; held != "" {
		fmt.Fprintf(w, "Drain\theld\tno server may be evicted now: %s\n", held)
	} else {
		fmt.Fprint(w, "Drain\tone at a time\ta server may be evicted now\n")
	}
}

// replicationFactor is the value in force, and the one in the spec if it differs.
func replicationFactor(c *ramcloudv1.RAMCloudCluster) string {
	wanted, have := specs.ReplicationFactor(c), c.Status.Data.Replication.Factor
	if have == 0 || have == wanted {
		return fmt.Sprintf("R = %d", wanted)
	}
	return fmt.Sprintf("R = %d (spec: %d)", have, wanted)
}

func (p *plugin) pending(s *ramcloudv1.RAMCloudClusterStatus) {
	if len(s.PendingRestart) == 0 {
		return
	}
	fmt.Fprintf(p.out, "\nPods that differ from spec\n")
	const most = 5
	for i, pending := range s.PendingRestart {
		if i == most {
			fmt.Fprintf(p.out, "  and %d more (kubectl get rcc -o yaml, status.pendingRestart)\n", len(s.PendingRestart)-most)
			return
		}
		fmt.Fprintf(p.out, "  %s: %s\n    waits: %s\n", pending.Pod, strings.Join(pending.Differs, "; "), pending.Waits)
	}
}

func (p *plugin) servers(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	list, err := p.records(ctx, c)
	if err != nil {
		return err
	}
	return p.table(func(w io.Writer) {
		fmt.Fprintln(w, "SERVER\tSTATE\tID\tTABLETS\tLIVE\tUSED\tMEMORY\tNODE\tDOMAIN\tLOCATOR\tWHY")
		for _, s := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Status.State, orDash(s.Status.Incarnation), s.Status.Tablets,
				size(s.Status.MemoryLive), size(s.Status.MemoryUsed), size(s.Status.MemoryTotal), orDash(s.Status.Placement.Node),
				orDash(s.Status.Placement.FailureDomain), orDash(s.Status.Locator), s.Status.StateReason)
		}
	})
}

// records are the cluster's RAMCloudServers in order of their index.
func (p *plugin) records(ctx context.Context, c *ramcloudv1.RAMCloudCluster) ([]ramcloudv1.RAMCloudServer, error) {
	var list ramcloudv1.RAMCloudServerList
	err := p.client.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{specs.LabelCluster: c.Name})
	slices.SortFunc(list.Items, func(a, b ramcloudv1.RAMCloudServer) int { return int(a.Spec.Index - b.Spec.Index) })
	return list.Items, err
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func size(q *resource.Quantity) string {
	if q == nil {
		return "-"
	}
	return q.String()
}
