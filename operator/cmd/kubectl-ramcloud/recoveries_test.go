package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// TestRecoveries: the latest first, with what each waits for. The ages lie in the middle of what is printed, so that a
// second that passes changes nothing.
func TestRecoveries(t *testing.T) {
	record := func(id string, ago time.Duration, status ramcloudv1.RAMCloudRecoveryStatus) client.Object {
		r := &ramcloudv1.RAMCloudRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-" + id, Labels: specs.Labels("demo", "")}, Status: status}
		r.Status.ServerID, r.Status.Summary.CrashedAt = id, metav1.NewTime(time.Now().Add(-ago))
		return r
	}
	verdict, served, memory := int64(180), int64(990), resource.MustParse("64Mi")
	out, err := run(t, []client.Object{cluster("demo"),
		record("3", 2*time.Hour+30*time.Minute, ramcloudv1.RAMCloudRecoveryStatus{ServerName: "demo-server-2", State: "DONE", Outcome: "COMPLETE", PartitionsTotal: 4, PartitionsDone: 4,
			TimelineMs: ramcloudv1.RecoveryTimeline{Verdict: &verdict, Served: &served}, Summary: ramcloudv1.RecoverySummary{Size: &memory}}),
		record("7", 20*time.Minute+30*time.Second, ramcloudv1.RAMCloudRecoveryStatus{ServerName: "demo-server-1", State: "BLOCKED", WaitsFor: "needed: segment 5"}),
	}, "recoveries", "demo")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("%s", out)
	}
	for i, want := range []string{
		"SERVER ID STATE OUTCOME AGE DETECTED FIRST KEY SERVED REPLICATED SIZE PARTITIONS WAITS FOR",
		"demo-server-1 7 BLOCKED - 20m - - - - - 0/0 needed: segment 5",
		"demo-server-2 3 DONE COMPLETE 150m 180ms - 990ms - 64Mi 4/4 -",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if out, err := run(t, []client.Object{cluster("demo")}, "recoveries"); err != nil || out != "No recovery of default/demo is recorded.\n" {
		t.Errorf("%q, %v", out, err)
	}
}
