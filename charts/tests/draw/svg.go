package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// The grid is Grafana's: 24 columns; these are its cells in pixels.
const (
	cellWidth, cellHeight = 50, 30
	gap                   = 8
	header                = 46
	plotLeft, plotTop     = 62, 30
	axisHeight            = 18
	legendLine            = 15
	shownInLegend         = 8
)

var colours = []string{"#2f6fb4", "#d9822b", "#3d9a57", "#c23b3b", "#7d5bb5", "#8a6a4f", "#c2589d", "#6b7280", "#a9a32a", "#2aa6b0"}

// svg draws a dashboard.
func svg(title, cluster string, panels []picture, from, to time.Time) string {
	width, height := 24*cellWidth, 0
	for _, p := range panels {
		height = max(height, (p.y+p.h)*cellHeight)
	}
	height += header
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#f4f5f7"/>`+"\n", width, height)
	text(&b, gap, 28, 18, "start", "#1f2937", title+": "+cluster)
	text(&b, width-gap, 28, 12, "end", "#6b7280", from.UTC().Format("2006-01-02 15:04:05")+" to "+to.UTC().Format("15:04:05")+" UTC, drawn without Grafana (hack/dashboards.sh)")
	for _, p := range panels {
		x, y := p.x*cellWidth+gap/2, header+p.y*cellHeight+gap/2
		w, h := p.w*cellWidth-gap, p.h*cellHeight-gap
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", x, y)
		fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="3" fill="#ffffff" stroke="#d7dae0"/>`+"\n", w, h)
		text(&b, 10, 19, 13, "start", "#1f2937", p.title)
		switch {
		case len(p.lines) == 0:
			text(&b, w/2, h/2+10, 13, "middle", "#9ca3af", "no data")
		case p.kind == "stat":
			stat(&b, p, w, h)
		default:
			plot(&b, p, w, h, from, to)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func text(b *strings.Builder, x, y, size int, anchor, colour, what string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, size, anchor, colour, html.EscapeString(what))
}

// stat shows the last value of each line in large figures.
func stat(b *strings.Builder, p picture, w, h int) {
	for i, l := range p.lines {
		middle := w * (2*i + 1) / (2 * len(p.lines))
		text(b, middle, h/2+16, 28, "middle", colours[0], human(last(l), p.unit))
		text(b, middle, h-12, 12, "middle", "#6b7280", l.name)
	}
}

func last(l line) float64 { return l.points[len(l.points)-1].F }

// plot draws the lines over time, with their names and last values below.
func plot(b *strings.Builder, p picture, w, h int, from, to time.Time) {
	lines := slices.Clone(p.lines)
	slices.SortStableFunc(lines, func(a, c line) int { return strings.Compare(a.name, c.name) })
	columns := legendColumns(lines, p.unit, w)
	rows := (min(len(lines), shownInLegend) + columns - 1) / columns
	bottom := h - 10 - rows*legendLine - axisHeight
	top := scale(lines)
	toX := func(t int64) float64 {
		return plotLeft + float64(w-plotLeft-12)*float64(t-from.UnixMilli())/float64(max(to.UnixMilli()-from.UnixMilli(), 1))
	}
	toY := func(v float64) float64 { return float64(bottom) - float64(bottom-plotTop)*min(max(v/top, 0), 1) }
	for i := range 5 {
		value := top * float64(i) / 4
		y := int(toY(value))
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#e5e7eb"/>`+"\n", plotLeft, w-12, y, y)
		text(b, plotLeft-6, y+4, 11, "end", "#6b7280", human(value, p.unit))
	}
	for i := range 4 {
		at := from.Add(to.Sub(from) * time.Duration(2*i+1) / 8)
		text(b, int(toX(at.UnixMilli())), bottom+14, 11, "middle", "#6b7280", at.UTC().Format("15:04:05"))
	}
	for i, l := range lines {
		var points []string
		for _, point := range l.points {
			if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", toX(point.T), toY(point.F)))
			}
		}
		colour := colours[i%len(colours)]
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>`+"\n", strings.Join(points, " "), colour)
		if i >= shownInLegend {
			continue
		}
		x, y := 14+(i%columns)*(w-20)/columns, bottom+axisHeight+12+(i/columns)*legendLine
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="10" height="3" fill="%s"/>`+"\n", x, y-5, colour)
		name := l.name + " " + human(last(l), p.unit)
		if i == shownInLegend-1 && len(lines) > shownInLegend {
			name = fmt.Sprintf("and %d more", len(lines)-shownInLegend+1)
		}
		text(b, x+14, y, 11, "start", "#374151", name)
	}
}

// legendColumns is how many names with their values stand beside each other without touching.
func legendColumns(lines []line, unit string, w int) int {
	const letter, mark = 6.5, 26 // of a font of 11 pixels; the coloured line and the gap
	widest := 1
	for _, l := range lines[:min(len(lines), shownInLegend)] {
		widest = max(widest, len([]rune(l.name+" "+human(last(l), unit))))
	}
	return min(max(int(float64(w-20)/(letter*float64(widest)+mark)), 1), shownInLegend)
}

// scale is the top of the axis: 1, 2 or 5 times a power of ten (of two, for bytes it makes no difference here).
func scale(lines []line) float64 {
	highest := 0.0
	for _, l := range lines {
		for _, point := range l.points {
			if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
				highest = max(highest, point.F)
			}
		}
	}
	if highest == 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if highest <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

// human writes a value as Grafana's units do.
func human(v float64, unit string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	switch unit {
	case "percentunit":
		return short(100*v) + " %"
	case "bytes":
		return prefixed(v, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"})
	case "s":
		switch {
		case v == 0:
			return "0 s"
		case v < 1e-3:
			return short(v*1e6) + " µs"
		case v < 1:
			return short(v*1e3) + " ms"
		}
		return short(v) + " s"
	case "ops":
		return prefixed(v, 1000, []string{"op/s", "k op/s", "M op/s"})
	}
	return strings.TrimSpace(prefixed(v, 1000, []string{"", "k", "M", "G"}))
}

func prefixed(v, base float64, names []string) string {
	i := 0
	for ; math.Abs(v) >= base && i < len(names)-1; i++ {
		v /= base
	}
	return short(v) + " " + names[i]
}

// short writes three digits that matter.
func short(v float64) string {
	switch {
	case math.Abs(v-math.Round(v)) < 1e-6, math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
