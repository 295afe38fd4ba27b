package tests

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// timeSeries has the samples of one set of labels, by rising time.
type timeSeries struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// add appends a number at a time in milliseconds.
func (s *timeSeries) add(ms int64, number float64) { s.samples = append(s.samples, sample{ms, number}) }

// seriesStore is the storage of Prometheus' engine.
type seriesStore []*timeSeries

// Querier implements storage.Queryable.
func (s seriesStore) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{s, mint, maxt}, nil
}

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

type querier struct {
	store      seriesStore
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
	for _, one := range q.store {
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
	return &set{series: found, at: -1}
}

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series              { return s.series[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }
