package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"svg": func(c chart) template.HTML { return template.HTML(c.svg()) }}).Parse(pageText))

// chart is grouped bars, or points if it is a scatter.
type chart struct {
	Title, Note, unit string
	series            []string
	groups            []string
	values            [][]float64 // group → series → value
	points            [][2]float64
}

const (
	chartWide, chartHigh = 460.0, 240.0
	left, bottom, top    = 52.0, 46.0, 12.0
)

// svg draws it. Colours are those of the page's style sheet, which has them for light and dark.
func (c chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img"><title>%s</title>`, chartWide, chartHigh, template.HTMLEscapeString(c.Title))
	most := 0.0
	for _, group := range c.values {
		most = max(most, slices.Max(group))
	}
	for _, p := range c.points {
		most = max(most, p[0], p[1])
	}
	scale := step(most)
	high, wide := chartHigh-bottom-top, chartWide-left
	y := func(v float64) float64 { return top + high*(1-v/(4*scale)) }
	for i := range 5 {
		v := float64(i) * scale
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="end" x="%g" y="%.1f">%.4g%s</text>`, left, chartWide, y(v), y(v), left-6, y(v)+4, v, c.unit)
	}
	for i, group := range c.values {
		each := wide / float64(len(c.values))
		bar := min(each*0.8/float64(len(group)), 44)
		from := left + each*(float64(i)+0.5) - bar*float64(len(group))/2
		for k, v := range group {
			fmt.Fprintf(&b, `<rect class="s%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s, %s: %.4g%s</title></rect>`,
				k, from+bar*float64(k), y(v), max(bar-2, 1), max(y(0)-y(v), 0), esc(c.groups[i]), esc(c.series[k]), v, c.unit)
		}
		fmt.Fprintf(&b, `<text class="mid" x="%.1f" y="%.1f">%s</text>`, left+each*(float64(i)+0.5), chartHigh-bottom+16, esc(c.groups[i]))
	}
	for _, p := range c.points {
		fmt.Fprintf(&b, `<circle class="s0" cx="%.1f" cy="%.1f" r="3"/>`, left+wide*p[0]/(4*scale), y(p[1]))
	}
	x := left
	for k, name := range c.series {
		fmt.Fprintf(&b, `<rect class="s%d" x="%.1f" y="%.1f" width="10" height="10"/><text x="%.1f" y="%.1f">%s</text>`, k, x, chartHigh-14, x+14, chartHigh-5, esc(name))
		x += 30 + 7.2*float64(len(name))
	}
	b.WriteString("</svg>")
	return b.String()
}

func esc(s string) string { return template.HTMLEscapeString(s) }

// step is a round quarter of an axis that reaches to a value.
func step(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, by := range []float64{1, 2, 2.5, 5, 10} {
		if 4*by*power >= most {
			return by * power
		}
	}
	return 10 * power
}

// charts are the paper's Figures 2, 4, 5 and 6 drawn of these runs, and what the paper does
// not have: plans and prefetch.
func charts(rows []*row, runs []Run, tasks []Task) (out []chart) {
	out = append(out, subtasksByServer(tasks))
	if c := counts(runs, tasks); len(c.points) > 0 {
		out = append(out, c)
	}
	rows = ofLevel(rows, hard)
	measures := []metric{allTokens, wholeTime, completion}
	for _, by := range []struct {
		title string
		names []string
		keep  func(*row) bool
		name  func(*row) string
	}{
		{"Figure 5: selection of tools", strategies, func(w *row) bool { return w.Schedule == parallel && !w.Prefetch }, func(w *row) string { return w.Strategy }},
		{"Figure 6: schedules", schedules, func(w *row) bool { return w.Strategy == self && !w.Prefetch }, func(w *row) string { return w.Schedule }},
	} {
		for _, m := range measures {
			c := chart{Title: by.title + ", " + m.name, Note: "hard tasks", unit: strings.ReplaceAll(m.format[strings.LastIndex(m.format, "f")+1:], "%%", "%"), series: by.names}
			for _, w := range rows {
				k := slices.Index(by.names, by.name(w))
				if !by.keep(w) || k < 0 {
					continue
				}
				i := slices.Index(c.groups, w.Model)
				if i < 0 {
					i, c.groups, c.values = len(c.groups), append(c.groups, w.Model), append(c.values, make([]float64, len(by.names)))
				}
				c.values[i][k], _ = w.value(m)
			}
			if len(c.values) > 0 {
				out = append(out, c)
			}
		}
	}
	return append(out, prefetched(rows), paperPass())
}

// prefetched is what prefetches save of the waiting, for each schedule.
func prefetched(rows []*row) chart {
	c := chart{Title: "Prefetch, waiting for tools", Note: "hard tasks, tools by self-selection, the first model that has it on", unit: " s", series: []string{"off", "on"}, groups: schedules, values: make([][]float64, len(schedules))}
	for i := range schedules {
		c.values[i] = make([]float64, 2)
	}
	with := slices.IndexFunc(rows, func(w *row) bool { return w.Prefetch && w.Strategy == self })
	for _, w := range rows {
		if i := slices.Index(schedules, w.Schedule); with >= 0 && w.Strategy == self && w.Model == rows[with].Model && i >= 0 {
			c.values[i][slices.Index(c.series, w.prefetches())], _ = w.value(waiting)
		}
	}
	return c
}

// subtasksByServer is Figure 2.
func subtasksByServer(tasks []Task) chart {
	c := chart{Title: "Figure 2: subtasks by server", Note: "by the tools that they need", series: []string{easy, hard}}
	for _, t := range tasks {
		for _, s := range t.Subtasks {
			server, _, _ := strings.Cut(s.Tool, "__")
			i := slices.Index(c.groups, server)
			if i < 0 {
				i, c.groups, c.values = len(c.groups), append(c.groups, server), append(c.values, []float64{0, 0})
			}
			if t.Level == easy {
				c.values[i][0]++
			} else {
				c.values[i][1]++
			}
		}
	}
	if len(c.groups) > 12 { // LiveMCPBench's tools have no server in their names
		c.groups, c.values = c.groups[:12], c.values[:12]
	}
	return c
}

// counts is Figure 4, right, with what is known of the tasks in the place of what people said.
func counts(runs []Run, tasks []Task) chart {
	c := chart{Title: "Figure 4: subtasks that the judge found, and those of the task", Note: "a point for each run", series: []string{"run"}}
	for _, r := range runs {
		i := slices.IndexFunc(tasks, func(t Task) bool { return t.ID == r.Task })
		if i >= 0 && r.Judged > 0 && len(tasks[i].Subtasks) > 0 {
			p := [2]float64{float64(len(tasks[i].Subtasks)), float64(r.Judged)}
			if !slices.Contains(c.points, p) {
				c.points = append(c.points, p)
			}
		}
	}
	return c
}

// paperPass are the rows of the paper's Table 2 whose cost-of-pass is not that of their own cost
// and completion.
func paperPass() chart {
	c := chart{Title: "The paper's Table 2: cost-of-pass, 0.001 $", Note: "rows that do not follow from their own figures", series: []string{"printed", "recomputed"}}
	for _, f := range published {
		if _, pass, _, holds := f.recomputed(); !holds {
			c.groups, c.values = append(c.groups, f.model+" "+f.level), append(c.values, []float64{f.pass, pass})
		}
	}
	return c
}

func printPage(out io.Writer, rows []*row, runs []Run, tasks []Task) error {
	return page.Execute(out, map[string]any{"Legend": legend, "Tables": tables(rows), "Charts": charts(rows, runs, tasks)})
}
