package main

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"percent": chart.percent}).Parse(pageText))

// chart is grouped bars, or points if it is a scatter chart. The page draws it.
type chart struct {
	Title, Note, Unit string
	Series            []string
	Groups            []string
	Values            [][]float64 // group → series → value
	Points            [][2]float64
}

// percent returns the position of a value on an axis that ends at the chart's maximum.
func (c chart) percent(v float64) float64 {
	most := 1e-9
	for _, group := range c.Values {
		most = max(most, slices.Max(group))
	}
	for _, p := range c.Points {
		most = max(most, p[0], p[1])
	}
	return math.Round(1000*v/most) / 10
}

// charts returns the paper's Figures 2, 4, 5 and 6 for these runs, and charts of plans and
// prefetch, which the paper does not have.
func charts(rows []*row, runs []Run, tasks []Task) (out []chart) {
	out = append(out, subtasksByServer(tasks))
	if c := counts(runs, tasks); len(c.Points) > 0 {
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
			c := chart{Title: by.title + ", " + m.name, Note: "hard tasks", Unit: strings.ReplaceAll(m.format[strings.LastIndex(m.format, "f")+1:], "%%", "%"), Series: by.names}
			for _, w := range rows {
				k := slices.Index(by.names, by.name(w))
				if !by.keep(w) || k < 0 {
					continue
				}
				i := slices.Index(c.Groups, w.Model)
				if i < 0 {
					i, c.Groups, c.Values = len(c.Groups), append(c.Groups, w.Model), append(c.Values, make([]float64, len(by.names)))
				}
				c.Values[i][k], _ = w.value(m)
			}
			if len(c.Values) > 0 {
				out = append(out, c)
			}
		}
	}
	return append(out, prefetched(rows), paperPass())
}

// prefetched shows how much waiting prefetches save with each schedule.
func prefetched(rows []*row) chart {
	c := chart{Title: "Prefetch, waiting for tools", Note: "hard tasks, tools by self-selection, the first model that has it on", Unit: " s", Series: []string{"off", "on"}, Groups: schedules, Values: make([][]float64, len(schedules))}
	for i := range schedules {
		c.Values[i] = make([]float64, 2)
	}
	with := slices.IndexFunc(rows, func(w *row) bool { return w.Prefetch && w.Strategy == self })
	for _, w := range rows {
		if i := slices.Index(schedules, w.Schedule); with >= 0 && w.Strategy == self && w.Model == rows[with].Model && i >= 0 {
			c.Values[i][slices.Index(c.Series, w.prefetches())], _ = w.value(waiting)
		}
	}
	return c
}

// subtasksByServer is Figure 2.
func subtasksByServer(tasks []Task) chart {
	c := chart{Title: "Figure 2: subtasks by server", Note: "by the tools that they need", Series: []string{easy, hard}}
	for _, t := range tasks {
		for _, s := range t.Subtasks {
			server, _, _ := strings.Cut(s.Tool, "__")
			i := slices.Index(c.Groups, server)
			if i < 0 {
				i, c.Groups, c.Values = len(c.Groups), append(c.Groups, server), append(c.Values, []float64{0, 0})
			}
			if t.Level == easy {
				c.Values[i][0]++
			} else {
				c.Values[i][1]++
			}
		}
	}
	if len(c.Groups) > 12 { // tools of LiveMCPBench have no server in their names
		c.Groups, c.Values = c.Groups[:12], c.Values[:12]
	}
	return c
}

// counts is Figure 4, right, with data of the tasks in place of the answers of people.
func counts(runs []Run, tasks []Task) chart {
	c := chart{Title: "Figure 4: subtasks that the judge found, and those of the task", Note: "a point for each run", Series: []string{"run"}}
	for _, r := range runs {
		i := slices.IndexFunc(tasks, func(t Task) bool { return t.ID == r.Task })
		if i >= 0 && r.Judged > 0 && len(tasks[i].Subtasks) > 0 {
			p := [2]float64{float64(len(tasks[i].Subtasks)), float64(r.Judged)}
			if !slices.Contains(c.Points, p) {
				c.Points = append(c.Points, p)
			}
		}
	}
	return c
}

// paperPass has the rows of the paper's Table 2 in which the cost-of-pass does not follow from
// cost and completion.
func paperPass() chart {
	c := chart{Title: "The paper's Table 2: cost-of-pass, 0.001 $", Note: "rows that do not follow from their own figures", Series: []string{"printed", "recomputed"}}
	for _, f := range published {
		if _, pass, _, holds := f.recomputed(); !holds {
			c.Groups, c.Values = append(c.Groups, f.model+" "+f.level), append(c.Values, []float64{f.pass, pass})
		}
	}
	return c
}

func printPage(out io.Writer, rows []*row, runs []Run, tasks []Task) error {
	return page.Execute(out, map[string]any{"Legend": legend, "Tables": tables(rows), "Charts": charts(rows, runs, tasks)})
}
