package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name string }
	}
}

// TestDashboards: every panel's queries parse, name metrics that exist, and no two panels overlap.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob("../ramcloud-operator/files/dashboards/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v %v", files, err)
	}
	have := registered(t)
	page, err := os.ReadFile("../../docs/operating/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := questions(string(page))
	// Variables that Grafana replaces before it queries.
	filled := strings.NewReplacer("$__rate_interval", "1m", "$namespace", "n", "$cluster", "c")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID == "" || d.Title == "" || len(d.Panels) < 5 || len(d.Templating.List) < 3 {
			t.Errorf("%s: %d panels, %d variables", file, len(d.Panels), len(d.Templating.List))
		}
		taken := map[[2]int]string{}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %q: id %d, %d queries, %+v", file, p.Title, p.ID, len(p.Targets), p.GridPos)
			}
			ids[p.ID] = true
			if listed[d.Title][p.Title] == "" {
				t.Errorf("docs/operating/monitoring.md does not say which question the panel %q of %s answers", p.Title, d.Title)
			}
			delete(listed[d.Title], p.Title)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %q is over %q", file, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				if _, err := parser.ParseExpr(filled.Replace(target.Expr)); err != nil {
					t.Errorf("%s: %q: %v", file, p.Title, err)
				}
				checkNames(t, p.Title, target.Expr, have)
			}
		}
	}
	for title, left := range listed {
		for panel := range left {
			t.Errorf("docs/operating/monitoring.md lists the panel %q, which %s does not have", panel, title)
		}
	}
}

// questions returns the questions that the page lists, by dashboard and panel. A dashboard's table stands
// below its title.
func questions(page string) map[string]map[string]string {
	out := map[string]map[string]string{}
	title := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if heading, is := strings.CutPrefix(line, "#"); is {
			title = strings.TrimSpace(strings.TrimLeft(heading, "#"))
		}
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(title, "RAMCloud / ") || len(cells) != 4 || strings.Contains(line, "---") || strings.TrimSpace(cells[1]) == "panel" {
			continue
		}
		if out[title] == nil {
			out[title] = map[string]string{}
		}
		out[title][strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
	}
	return out
}
