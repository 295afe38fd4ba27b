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

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// store keeps what was scraped, in memory.
type store struct {
	series []*oneSeries
	byText map[string]*oneSeries
}

type oneSeries struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// sample is one number at one time, in milliseconds.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// add takes in a text in Prometheus' format. The target's labels do not replace those that a series has.
func (s *store) add(text string, target map[string]string, at time.Time) error {
	if s.byText == nil {
		s.byText = map[string]*oneSeries{}
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
			one = &oneSeries{labels: builder.Labels()}
			s.byText[line[:cut]+suffix] = one
			s.series = append(s.series, one)
		}
		one.samples = append(one.samples, sample{at.UnixMilli(), value})
	}
	return nil
}

func (s *store) samples() (n int) {
	for _, one := range s.series {
		n += len(one.samples)
	}
	return n
}

// Querier makes the store one of Prometheus' engine.
func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{s, mint, maxt}, nil
}

type querier struct {
	store      *store
	mint, maxt int64
}

func (querier) Close() error { return nil }
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, one := range q.store.series {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) }) {
			continue
		}
		var inside []chunks.Sample
		for _, sample := range one.samples {
			if sample.T() >= q.mint && sample.T() <= q.maxt {
				inside = append(inside, sample)
			}
		}
		if len(inside) > 0 {
			found = append(found, storage.NewListSeries(one.labels, inside))
		}
	}
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &seriesSet{series: found, at: -1}
}

type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

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
		query, err := engine.NewRangeQuery(ctx, s, nil, filled.Replace(target.Expr), from, to, step)
		if err != nil {
			return out, err
		}
		matrix, err := query.Exec(ctx).Matrix()
		if err != nil {
			query.Close()
			return out, err
		}
		for _, series := range matrix {
			// A quantile of nothing is no number: an operation that nobody did is left out.
			if !slices.ContainsFunc(series.Floats, func(p promql.FPoint) bool { return !math.IsNaN(p.F) && !math.IsInf(p.F, 0) }) {
				continue
			}
			out.lines = append(out.lines, line{legend(target.LegendFormat, series.Metric), slices.Clone(series.Floats)})
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
