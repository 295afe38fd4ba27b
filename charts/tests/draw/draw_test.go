package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHuman(t *testing.T) {
	for _, test := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "short", "0"}, {12345, "short", "12.3 k"}, {0.5, "percentunit", "50 %"}, {1536, "bytes", "1.50 KiB"},
		{0.000025, "s", "25 µs"}, {0.0123, "s", "12.3 ms"}, {0, "s", "0 s"}, {1500, "ops", "1.50 k op/s"}, {250, "ops", "250 op/s"},
	} {
		if got := human(test.value, test.unit); got != test.want {
			t.Errorf("%g %s is written %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

func TestAddRefusesWhatIsNoMetric(t *testing.T) {
	for _, text := range []string{"a{b=\"c\"", "a one", "a{b} 1"} {
		if err := (&store{}).add(text, nil, time.Now()); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// scraped is a minute and a half of two servers and an operator, by its own labels.
func scraped(t *testing.T, from time.Time) (*store, time.Time) {
	t.Helper()
	s, at := &store{}, from
	for i := range 20 {
		at = from.Add(time.Duration(i) * 5 * time.Second)
		for server := range 2 {
			text := fmt.Sprintf("# TYPE ramcloud_operations_total counter\nramcloud_operations_total{op=\"read\"} %d\nramcloud_objects 7\n", 100*i*(server+1))
			if err := s.add(text, map[string]string{"namespace": "default", "pod": fmt.Sprintf("demo-server-%d", server), "cluster": "demo"}, at); err != nil {
				t.Fatal(err)
			}
		}
		text := "ramcloud_cluster_servers{namespace=\"default\",cluster=\"demo\",state=\"up\"} 2\n"
		if err := s.add(text, map[string]string{"namespace": "ramcloud-system", "pod": "ramcloud-operator-x"}, at); err != nil {
			t.Fatal(err)
		}
	}
	return s, at
}

func TestEveryDashboardIsDrawn(t *testing.T) {
	from := time.Unix(1_700_000_000, 0)
	s, to := scraped(t, from)
	o := &options{dashboards: "../../ramcloud-operator/files/dashboards", out: t.TempDir(), namespace: "default", cluster: "demo", every: 5 * time.Second}
	if err := drawAll(context.Background(), o, s, from.Add(10*time.Second), to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		// 100 more every 5 seconds is 20 a second, of two servers 60.
		"cluster": {"Operations", ">read 60 op/s<", ">2<", ">up<", ">objects 14<", "no data"},
		"servers": {"Operations of each server", ">demo-server-0 20 op/s<", ">demo-server-1 40 op/s<"},
	} {
		text, err := os.ReadFile(filepath.Join(o.out, "dashboard-"+name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("dashboard-%s.svg lacks %q", name, part)
			}
		}
		for decoder := xml.NewDecoder(strings.NewReader(string(text))); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("dashboard-%s.svg: %v", name, err)
			}
		}
	}
}
