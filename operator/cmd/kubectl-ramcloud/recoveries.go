package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// recoveries lists the records of a cluster's recoveries, the latest first.
func (p *plugin) recoveries(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	var list ramcloudv1.RAMCloudRecoveryList
	err := p.client.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{specs.LabelCluster: c.Name})
	if err != nil {
		return fmt.Errorf("reading the records of recoveries: %w; if the cluster has no such kind, its CRDs are of an earlier version: docs/operating/upgrades.md", err)
	}
	slices.SortFunc(list.Items, func(a, b ramcloudv1.RAMCloudRecovery) int {
		return cmp.Or(b.Status.Summary.CrashedAt.Compare(a.Status.Summary.CrashedAt.Time), cmp.Compare(b.Name, a.Name))
	})
	if len(list.Items) == 0 {
		fmt.Fprintf(p.out, "No recovery of %s/%s is recorded.\n", c.Namespace, c.Name)
		return nil
	}
	return p.table(func(w io.Writer) {
		fmt.Fprintln(w, "SERVER\tID\tSTATE\tOUTCOME\tAGE\tDETECTED\tFIRST KEY\tSERVED\tREPLICATED\tSIZE\tPARTITIONS\tWAITS FOR")
		for i := range list.Items {
			s := &list.Items[i].Status
			age := "-"
			if at := s.Summary.CrashedAt; !at.IsZero() {
				age = duration.HumanDuration(time.Since(at.Time))
			}
			t := s.TimelineMs
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\n", orDash(s.ServerName), orDash(s.ServerID), orDash(s.State), orDash(s.Outcome), age,
				after(t.Verdict), after(t.FirstKey), after(t.Served), after(t.Replicated), size(s.Summary.Size), s.PartitionsDone, s.PartitionsTotal, orDash(s.WaitsFor))
		}
	})
}

// after is a time since the server's last answer.
func after(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return fmt.Sprintf("%dms", *ms)
}
