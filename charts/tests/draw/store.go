package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"ramcloud.dev/charts/series"
)

// store keeps what was scraped, in memory.
type store struct {
	all    series.Store
	byText map[string]*series.Series
}

// add takes in a text in Prometheus' format. The target's labels do not replace those that a series has.
func (s *store) add(text string, target map[string]string, at time.Time) error {
	if s.byText == nil {
		s.byText = map[string]*series.Series{}
	}
	var b strings.Builder
	for _, name := range []string{"namespace", "pod", "cluster", "component"} {
		if target[name] != "" {
			fmt.Fprintf(&b, "|%s=%s", name, target[name])
		}
	}
	suffix := b.String()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 {
			return fmt.Errorf("not a sample: %q", line)
		}
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			return fmt.Errorf("not a sample: %q: %w", line, err)
		}
		one := s.byText[line[:cut]+suffix]
		if one == nil {
			metric, err := parser.ParseMetric(line[:cut])
			if err != nil {
				return fmt.Errorf("not a series: %q: %w", line, err)
			}
			builder := labels.NewBuilder(metric)
			for name, value := range target {
				if value != "" && metric.Get(name) == "" {
					builder.Set(name, value)
				}
			}
			one = &series.Series{Labels: builder.Labels()}
			s.byText[line[:cut]+suffix] = one
			s.all = append(s.all, one)
		}
		one.Add(at.UnixMilli(), value)
	}
	return nil
}

func (s *store) samples() (n int) {
	for _, one := range s.all {
		n += one.Len()
	}
	return n
}

// picture is a panel with its data.
type picture struct {
	title, kind, unit string
	x, y, w, h        int
	lines             []line
}

type line struct {
	name   string
	points []promql.FPoint
}

// evaluate asks a panel's queries.
func evaluate(ctx context.Context, engine *promql.Engine, s *store, p panel, filled *strings.Replacer, from, to time.Time, step time.Duration) (picture, error) {
	out := picture{title: p.Title, kind: p.Type, unit: p.FieldConfig.Defaults.Unit, x: p.GridPos.X, y: p.GridPos.Y, w: p.GridPos.W, h: p.GridPos.H}
	for _, target := range p.Targets {
		query, err := engine.NewRangeQuery(ctx, s.all, nil, filled.Replace(target.Expr), from, to, step)
		if err != nil {
			return out, err
		}
		matrix, err := query.Exec(ctx).Matrix()
		if err != nil {
			query.Close()
			return out, err
		}
		for _, found := range matrix {
			// A quantile of nothing is no number: an operation that nobody did is left out.
			if !slices.ContainsFunc(found.Floats, func(p promql.FPoint) bool { return !math.IsNaN(p.F) && !math.IsInf(p.F, 0) }) {
				continue
			}
			out.lines = append(out.lines, line{legend(target.LegendFormat, found.Metric), slices.Clone(found.Floats)})
		}
		query.Close()
	}
	return out, nil
}

var placeholder = regexp.MustCompile(`\{\{ *([a-zA-Z_]+) *\}\}`)

func legend(format string, metric labels.Labels) string {
	return placeholder.ReplaceAllStringFunc(format, func(found string) string {
		return metric.Get(placeholder.FindStringSubmatch(found)[1])
	})
}
