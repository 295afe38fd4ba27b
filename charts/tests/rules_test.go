package tests

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

const rulesFile = "../ramcloud-operator/files/alerts/ramcloud.yaml"

func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs) // wrong expressions and templates among them
	}
	out := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			out[rule.Alert] = rule
		}
	}
	return out
}

// asked is the time at which the rules are evaluated.
var asked = time.Unix(1_700_000_000, 0)

// data are series by their text: constant, or with "rising " before it, rising by the number each minute.
type data map[string]float64

// series has a sample a minute of each, for longer than any rule looks back.
func (d data) series(t *testing.T) (all seriesStore) {
	t.Helper()
	for text, value := range d {
		text, rising := strings.CutPrefix(text, "rising ")
		metric, err := parser.ParseMetric(text)
		if err != nil {
			t.Fatal(err)
		}
		one := &timeSeries{labels: metric}
		for back := 120 * time.Minute; back >= 0; back -= time.Minute {
			now := value
			if rising {
				now *= (120*time.Minute - back).Minutes()
			}
			one.add(asked.Add(-back).UnixMilli(), now)
		}
		all = append(all, one)
	}
	return all
}

// fires returns the labels of the series that the rule's expression finds.
func fires(t *testing.T, rule rulefmt.Rule, d data) []string {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	defer func() { _ = engine.Close() }()
	query, err := engine.NewInstantQuery(context.Background(), d.series(t), nil, rule.Expr, asked)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(context.Background()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range vector {
		out = append(out, s.Metric.Get("namespace")+"/"+s.Metric.Get("cluster")+s.Metric.Get("reason"))
	}
	slices.Sort(out)
	return out
}

// TestAlerts gives every rule one cluster that is well (a) and one that is not (b).
func TestAlerts(t *testing.T) {
	all := rules(t)
	tested := map[string]bool{}
	for _, test := range []struct {
		alert string
		data  data
		want  string
	}{
		{"RAMCloudTabletsUnavailable", data{`ramcloud_cluster_tablets_unavailable{namespace="n",cluster="a"}`: 0, `ramcloud_cluster_tablets_unavailable{namespace="n",cluster="b"}`: 3}, "n/b"},
		{"RAMCloudNotReady", data{`ramcloud_cluster_condition{namespace="n",cluster="a",condition="Ready",reason="AllServersUp"}`: 1,
			`ramcloud_cluster_condition{namespace="n",cluster="b",condition="Ready",reason="ServersNotUp"}`: 0}, "n/b"},
		{"RAMCloudDegraded", data{`ramcloud_cluster_condition{namespace="n",cluster="a",condition="Degraded",reason="AsExpected"}`: 0,
			`ramcloud_cluster_condition{namespace="n",cluster="b",condition="Degraded",reason="PodsFailing"}`: 1}, "n/bPodsFailing"},
		{"RAMCloudUnderReplicated", data{`ramcloud_cluster_segments_under_replicated{namespace="n",cluster="a"}`: 0,
			`ramcloud_cluster_segments_under_replicated{namespace="n",cluster="b"}`: 1}, "n/b"},
		{"RAMCloudMemoryFull", data{ // of all servers together: one full server of two is not a full cluster
			`ramcloud_log_used_bytes{namespace="n",cluster="a",pod="1"}`: 100, `ramcloud_log_bytes{namespace="n",cluster="a",pod="1"}`: 100,
			`ramcloud_log_used_bytes{namespace="n",cluster="a",pod="2"}`: 10, `ramcloud_log_bytes{namespace="n",cluster="a",pod="2"}`: 100,
			`ramcloud_log_live_bytes{namespace="n",cluster="a",pod="1"}`: 100, `ramcloud_log_live_bytes{namespace="n",cluster="a",pod="2"}`: 5,
			`ramcloud_log_used_bytes{namespace="n",cluster="b",pod="1"}`: 95, `ramcloud_log_bytes{namespace="n",cluster="b",pod="1"}`: 100, // without cleaning
			`ramcloud_log_live_bytes{namespace="n",cluster="b",pod="1"}`: 10,
			`ramcloud_log_used_bytes{namespace="n",cluster="c",pod="1"}`: 95, `ramcloud_log_bytes{namespace="n",cluster="c",pod="1"}`: 100, // with it
			`ramcloud_log_live_bytes{namespace="n",cluster="c",pod="1"}`: 70, `ramcloud_cleaner_mode{namespace="n",cluster="c",pod="1"}`: 2,
			`ramcloud_log_used_bytes{namespace="n",cluster="d",pod="1"}`: 95, `ramcloud_log_bytes{namespace="n",cluster="d",pod="1"}`: 100,
			`ramcloud_log_live_bytes{namespace="n",cluster="d",pod="1"}`: 85, `ramcloud_cleaner_mode{namespace="n",cluster="d",pod="1"}`: 2}, "n/b n/d"},
		{"RAMCloudServerFull", data{ // one of two, which together are not full
			`ramcloud_log_live_bytes{namespace="n",cluster="a",pod="1"}`: 89, `ramcloud_log_bytes{namespace="n",cluster="a",pod="1"}`: 100,
			`ramcloud_log_used_bytes{namespace="n",cluster="a",pod="1"}`: 99, `ramcloud_cleaner_mode{namespace="n",cluster="a",pod="1"}`: 2, // it cleans
			`ramcloud_log_live_bytes{namespace="n",cluster="b",pod="1"}`: 91, `ramcloud_log_bytes{namespace="n",cluster="b",pod="1"}`: 100,
			`ramcloud_log_used_bytes{namespace="n",cluster="b",pod="1"}`: 99, `ramcloud_cleaner_mode{namespace="n",cluster="b",pod="1"}`: 3,
			`ramcloud_log_live_bytes{namespace="n",cluster="b",pod="2"}`: 1, `ramcloud_log_bytes{namespace="n",cluster="b",pod="2"}`: 1000,
			`ramcloud_log_live_bytes{namespace="n",cluster="c",pod="1"}`: 10, `ramcloud_log_bytes{namespace="n",cluster="c",pod="1"}`: 100,
			`ramcloud_log_used_bytes{namespace="n",cluster="c",pod="1"}`: 91, // it does not clean, and another one does
			`ramcloud_log_live_bytes{namespace="n",cluster="c",pod="2"}`: 10, `ramcloud_log_bytes{namespace="n",cluster="c",pod="2"}`: 100,
			`ramcloud_log_used_bytes{namespace="n",cluster="c",pod="2"}`: 95, `ramcloud_cleaner_mode{namespace="n",cluster="c",pod="2"}`: 0}, "n/b n/c"},
		{"RAMCloudOutOfMemory", data{`ramcloud_memory_full_total{namespace="n",cluster="a",pod="1",answer="out_of_memory"}`: 600, // long ago
			`rising ramcloud_memory_full_total{namespace="n",cluster="b",pod="1",answer="out_of_memory"}`: 1,
			`ramcloud_memory_full_total{namespace="n",cluster="b",pod="2",answer="out_of_memory"}`:        0,
			`rising ramcloud_memory_full_total{namespace="n",cluster="c",pod="1",answer="retry"}`:         600}, "n/b"},
		{"RAMCloudCleanerBehind", data{`rising ramcloud_memory_full_total{namespace="n",cluster="a",answer="retry"}`: 6, // a minute
			`rising ramcloud_memory_full_total{namespace="n",cluster="b",answer="retry"}`:         600,
			`rising ramcloud_memory_full_total{namespace="n",cluster="c",answer="out_of_memory"}`: 600}, "n/b"},
		{"RAMCloudBackupsFull", data{`ramcloud_backup_frames_used{namespace="n",cluster="a"}`: 90, `ramcloud_backup_frames{namespace="n",cluster="a"}`: 100,
			`ramcloud_backup_frames_used{namespace="n",cluster="b"}`: 91, `ramcloud_backup_frames{namespace="n",cluster="b"}`: 100}, "n/b"},
		{"RAMCloudOperatorAbsent", data{`ramcloud_transport_connections{namespace="n",cluster="a",pod="1"}`: 3, `ramcloud_transport_connections{namespace="n",cluster="b",pod="1"}`: 0,
			`ramcloud_cluster_condition{namespace="n",cluster="a",condition="Ready",reason="ServersNotUp"}`: 0,
			`leader_election_master_status{namespace="system",name="ramcloud-operator",pod="1"}`:            1, // and a standby
			`leader_election_master_status{namespace="system",name="ramcloud-operator",pod="2"}`:            0,
			`leader_election_master_status{namespace="other",name="ramcloud-operator",pod="1"}`:             0, // no operator there acts
			`leader_election_master_status{namespace="n",name="another-controller",pod="1"}`:                0}, "n/b other/"},
		{"RAMCloudReconcileErrors", data{`rising ramcloud_cluster_reconcile_errors_total{namespace="n",cluster="a"}`: 0.2, // now and then
			`rising ramcloud_cluster_reconcile_errors_total{namespace="n",cluster="b"}`: 2, // with the longest back-off
			`ramcloud_cluster_reconcile_errors_total{namespace="n",cluster="c"}`:        500}, "n/b"},
		{"RAMCloudEtcdMemberDown", data{`ramcloud_cluster_etcd_members{namespace="n",cluster="a",state="ready"}`: 3, `ramcloud_cluster_etcd_members{namespace="n",cluster="a",state="wanted"}`: 3,
			`ramcloud_cluster_etcd_members{namespace="n",cluster="b",state="ready"}`: 2, `ramcloud_cluster_etcd_members{namespace="n",cluster="b",state="wanted"}`: 3}, "n/b"},
		{"RAMCloudEtcdQuorumLost", data{`ramcloud_cluster_etcd_members{namespace="n",cluster="a",state="ready"}`: 2, `ramcloud_cluster_etcd_members{namespace="n",cluster="a",state="wanted"}`: 3,
			`ramcloud_cluster_etcd_members{namespace="n",cluster="b",state="ready"}`: 1, `ramcloud_cluster_etcd_members{namespace="n",cluster="b",state="wanted"}`: 3,
			`ramcloud_cluster_etcd_members{namespace="n",cluster="c",state="ready"}`: 1, `ramcloud_cluster_etcd_members{namespace="n",cluster="c",state="wanted"}`: 1,
			`etcd_server_has_leader{namespace="n",cluster="a",component="etcd",pod="1"}`: 1,
			`etcd_server_has_leader{namespace="n",cluster="a",component="etcd",pod="2"}`: 0, // cut off from the others
			`etcd_server_has_leader{namespace="n",cluster="d",component="etcd",pod="1"}`: 0,
			`etcd_server_has_leader{namespace="kube-system",component="control-plane"}`:  0}, "n/b n/d"},
		{"RAMCloudNoLeader", data{`ramcloud_coordinator_leading{namespace="n",cluster="a",pod="1"}`: 0, `ramcloud_coordinator_leading{namespace="n",cluster="a",pod="2"}`: 1,
			`ramcloud_coordinator_leading{namespace="n",cluster="b",pod="1"}`:                                          0,
			`ramcloud_cluster_condition{namespace="n",cluster="a",condition="Ready",reason="ServersNotUp"}`:            0,
			`ramcloud_cluster_condition{namespace="n",cluster="c",condition="Ready",reason="CoordinatorNotAnswering"}`: 0}, "n/b n/c"}, // no series of c is scraped
		{"RAMCloudVolumeTerminating", data{`ramcloud_cluster_volumes_terminating{namespace="n",cluster="a"}`: 0, `ramcloud_cluster_volumes_terminating{namespace="n",cluster="b"}`: 1}, "n/b"},
		{"RAMCloudVolumeCannotGrow", data{ // others of the cluster may be growing meanwhile
			`ramcloud_cluster_condition{namespace="n",cluster="a",condition="Resizing",reason="VolumesGrowing"}`:   1,
			`ramcloud_cluster_condition{namespace="n",cluster="d",condition="Resizing",reason="VolumesAsWanted"}`:  0,
			`ramcloud_cluster_condition{namespace="n",cluster="c",condition="Resizing",reason="ResizeInfeasible"}`: 1,
			`ramcloud_cluster_condition{namespace="n",cluster="b",condition="Resizing",reason="ResizeInfeasible"}`: 0}, "n/b n/c"},
		{"RAMCloudIdentityChanged", data{`ramcloud_cluster_condition{namespace="n",cluster="a",condition="ConsistentIdentity",reason="IdentityNotKnown"}`: 0,
			`ramcloud_cluster_condition{namespace="n",cluster="c",condition="ConsistentIdentity",reason="IdentityPinned"}`:  1,
			`ramcloud_cluster_condition{namespace="n",cluster="b",condition="ConsistentIdentity",reason="IdentityChanged"}`: 0}, "n/b"},
		{"RAMCloudRecoveryBlocked", data{`ramcloud_recoveries_blocked{namespace="n",cluster="a",pod="1"}`: 0,
			`ramcloud_recoveries_blocked{namespace="n",cluster="b",pod="1"}`: 0, `ramcloud_recoveries_blocked{namespace="n",cluster="b",pod="2"}`: 1}, "n/b"},
		{"RAMCloudRecoveryTooLong", data{`ramcloud_recoveries_running{namespace="n",cluster="a",pod="1"}`: 0,
			`ramcloud_recoveries_running{namespace="n",cluster="b",pod="1"}`: 2}, "n/b"},
		{"RAMCloudServersSuspected", data{`ramcloud_coordinator_servers_suspected{namespace="n",cluster="a"}`: 0,
			`ramcloud_coordinator_servers_suspected{namespace="n",cluster="b"}`: 1}, "n/b"},
		{"RAMCloudEpochStuck", data{`ramcloud_oldest_epoch_seconds{namespace="n",cluster="a",pod="1"}`: 0.00002, // a grace period in progress
			`ramcloud_oldest_epoch_seconds{namespace="n",cluster="b",pod="1"}`: 0, `ramcloud_oldest_epoch_seconds{namespace="n",cluster="b",pod="2"}`: 6}, "n/b"},
		{"RAMCloudScaleBlocked", data{`ramcloud_cluster_condition{namespace="n",cluster="a",condition="ScaleBlocked",reason="NotBlocked"}`: 0,
			`ramcloud_cluster_condition{namespace="n",cluster="b",condition="ScaleBlocked",reason="ScaleInNotSupported"}`: 1}, "n/b"},
	} {
		rule, there := all[test.alert]
		if !there {
			t.Errorf("there is no alert %s", test.alert)
			continue
		}
		tested[test.alert] = true
		if got := strings.Join(fires(t, rule, test.data), " "); got != test.want {
			t.Errorf("%s fires for %q, want %q", test.alert, got, test.want)
		}
		if got := fires(t, rule, data{}); len(got) > 0 {
			t.Errorf("%s fires without data: %v", test.alert, got)
		}
	}
	entries, err := os.ReadFile("../../docs/operating/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range all {
		if !tested[name] {
			t.Errorf("the alert %s is not tested", name)
		}
		anchor := strings.ToLower(name)
		if rule.Annotations["runbook"] != "docs/operating/troubleshooting.md#"+anchor || !strings.Contains(string(entries), "\n### "+name+"\n") {
			t.Errorf("docs/operating/troubleshooting.md has no entry %s, or the alert does not name it: %q", name, rule.Annotations["runbook"])
		}
		if rule.For == 0 || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s lacks for, severity, summary or description", name)
		}
	}
}

// metricsOf are the names of metrics in a text.
var (
	metricName = regexp.MustCompile(`\bramcloud_[a-z_]+`)
	literals   = regexp.MustCompile(`"[A-Za-z_]+"`)
	selector   = regexp.MustCompile(`\b(ramcloud_[a-z_]+)\{([^}]*)\}`)
	labelValue = regexp.MustCompile(`\b[a-z_]+=("[A-Za-z_]+")`)
)

// registered are all metrics that the engine and the operator have, as their sources name them; and, in quotes, what values of
// their labels can be.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, folder := range []string{"../../node/src", "../../operator/cmd/operator", "../../operator/internal/controller"} {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".cc") && !strings.HasSuffix(path, ".h") && filepath.Base(path) != "metrics.go" || strings.HasSuffix(path, "_test.cc") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range metricName.FindAllString(string(text), -1) {
				out[name] = true
			}
			for _, literal := range literals.FindAllString(string(text), -1) {
				out[literal] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func checkNames(t *testing.T, where, expression string, have map[string]bool) {
	t.Helper()
	for _, name := range metricName.FindAllString(expression, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !have[base] {
			t.Errorf("%s: nothing has the metric %s", where, name)
		}
	}
	for _, series := range selector.FindAllStringSubmatch(expression, -1) {
		if strings.HasPrefix(series[1], "ramcloud_cluster_") {
			continue // its values are those of the API
		}
		for _, value := range labelValue.FindAllStringSubmatch(series[2], -1) {
			if !have[value[1]] {
				t.Errorf("%s: %s has no label with the value %s", where, series[1], value[1])
			}
		}
	}
}

func TestAlertsUseMetricsThatThereAre(t *testing.T) {
	have := registered(t)
	for name, rule := range rules(t) {
		checkNames(t, name, rule.Expr, have)
	}
}
