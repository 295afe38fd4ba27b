// Command draw makes pictures of the Grafana dashboards with real data, where there is no Grafana: it scrapes a
// cluster for some minutes, as the chart's PodMonitor and ServiceMonitor would have it scraped, evaluates each
// panel's queries with Prometheus' own engine, and draws one SVG per dashboard. hack/dashboards.sh calls it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
)

type options struct {
	dashboards, out              string
	namespace, cluster, operator string
	lasting, every               time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("draw", flag.ContinueOnError)
	flags.StringVar(&o.dashboards, "dashboards", "../ramcloud-operator/files/dashboards", "folder of the dashboards")
	flags.StringVar(&o.out, "out", "../../docs/images", "folder for NAME.svg")
	flags.StringVar(&o.namespace, "namespace", "default", "what $namespace stands for")
	flags.StringVar(&o.cluster, "cluster", "demo", "what $cluster stands for")
	flags.StringVar(&o.operator, "operator-namespace", "ramcloud-system", "where the operator is; its metrics are read with the token in RAMCLOUD_METRICS_TOKEN")
	flags.DurationVar(&o.lasting, "for", 3*time.Minute, "how long to scrape, at least a minute")
	flags.DurationVar(&o.every, "every", 5*time.Second, "how often to scrape")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || o.lasting < time.Minute || o.every < time.Second {
		return nil, fmt.Errorf("arguments %q, --for %s, --every %s; accepted: no arguments, at least 1m, at least 1s", flags.Args(), o.lasting, o.every)
	}
	return o, nil
}

// dashboard is what is read of Grafana's JSON.
type dashboard struct {
	Title  string
	Panels []panel
}

type panel struct {
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []struct{ Expr, LegendFormat string }
}

func readDashboard(path string) (*dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// drawAll draws every dashboard over the time that was scraped.
func drawAll(ctx context.Context, o *options, s *store, from, to time.Time) error {
	files, err := filepath.Glob(filepath.Join(o.dashboards, "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no dashboards in %s", o.dashboards)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	defer func() { _ = engine.Close() }()
	// As Grafana fills them in: the interval is four scrapes.
	filled := strings.NewReplacer("$__rate_interval", (4 * o.every).String(), "$namespace", o.namespace, "$cluster", o.cluster)
	for _, file := range files {
		d, err := readDashboard(file)
		if err != nil {
			return err
		}
		drawn := make([]picture, len(d.Panels))
		for i, p := range d.Panels {
			if drawn[i], err = evaluate(ctx, engine, s, p, filled, from, to, o.every); err != nil {
				return fmt.Errorf("%s: %q: %w", file, p.Title, err)
			}
		}
		name := filepath.Join(o.out, "dashboard-"+strings.TrimSuffix(filepath.Base(file), ".json")+".svg")
		if err := os.WriteFile(name, []byte(svg(d.Title, o.namespace+"/"+o.cluster, drawn, from, to)), 0o644); err != nil {
			return err
		}
		empty := 0
		for _, p := range drawn {
			if len(p.lines) == 0 {
				fmt.Printf("  without data: %s\n", p.title)
				empty++
			}
		}
		fmt.Printf("%s: %d panels, %d without data\n", name, len(drawn), empty)
	}
	return nil
}

func run() error {
	o, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	scraper, err := newScraper(ctx, o)
	if err != nil {
		return err
	}
	defer scraper.close()
	s, from := &store{}, time.Now()
	for tick := time.NewTicker(o.every); time.Since(from) < o.lasting; {
		if err := scraper.scrape(ctx, s, time.Now()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Printf("%d series, %d samples from %d targets\n", len(s.all), s.samples(), len(scraper.targets))
	// The first rates need two scrapes.
	return drawAll(ctx, o, s, from.Add(2*o.every), time.Now())
}

func main() {
	if err := run(); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
