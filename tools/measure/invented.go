package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// step is a call of an invented agent.
type step struct {
	tool      string
	arguments map[string]any
	text      string
}

// agents invent the calls of one session each. They go through lists, which recorded sessions of
// the two kinds that there are seldom do. Every tool but append_note only reads.
var agents = []struct {
	name   string
	invent func(*rand.Rand) []step
}{
	{"issues of a list, in order", issues},
	{"documents that a search found", documents},
	{"notes, and writes to them", notes},
	{"tables of a database", tables},
	{"three of these at once", together},
}

// invented plays invented workloads with the defaults. They guard what is learned against fitting
// the recorded sessions alone, and are no evidence of any real server or agent.
func invented(w io.Writer) {
	model := func(tool string) *valuemodel.Model {
		m := &valuemodel.Model{Upstream: "trace", Tool: tool}
		m.Class, m.Speculate, m.Disclosure = valuemodel.ReadOnly, new(true), valuemodel.SameService
		if tool == "append_note" {
			m.Class, m.Speculate = valuemodel.MutatesLocal, new(false)
		}
		return m
	}
	fmt.Fprintln(w, "invented, at the defaults                issued  used  accuracy  coverage")
	for _, a := range agents {
		r := rand.New(rand.NewPCG(7, 11))
		train, bench := sessions(r, "train", a.invent), sessions(r, "bench", a.invent)
		for _, l := range []workload{{a.name + ", new", nil, bench, false, 0}, {a.name, train, bench, false, 0}} {
			l.play(model, w)
		}
	}
}

// sessions returns 40 sessions, in which each call takes 0.3 to 0.9 s, after a pause of 1.5 to 6 s.
func sessions(r *rand.Rand, name string, invent func(*rand.Rand) []step) (all []replay.Call) {
	for i := range 40 {
		now := int64(1_700_000_000_000)
		for n, s := range invent(r) {
			arguments, _ := json.Marshal(s.arguments) // of texts and numbers
			start, end := now, now+300+r.Int64N(600)
			all = append(all, replay.Call{
				Session: fmt.Sprint(name, i), Seq: n, Batch: n, Start: &start, End: &end,
				Tool: s.tool, Arguments: arguments, Text: s.text, Bytes: len(s.text),
			})
			now = end + 1500 + r.Int64N(4500)
		}
	}
	return all
}

// words returns n random words.
func words(r *rand.Rand, n int) string {
	const from = "alpha beta gamma delta node parser cache token sync store route queue worker index shard lease clock trace"
	all := strings.Fields(from)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all[:n], " ")
}

// list returns a JSON array of n objects.
func list(n int, object func(i int) map[string]any) string {
	all := make([]map[string]any, n)
	for i := range all {
		all[i] = object(i)
	}
	text, _ := json.Marshal(all)
	return string(text)
}

func issues(r *rand.Rand) (out []step) {
	for range 1 + r.IntN(3) {
		repo, newest, n := fmt.Sprint(words(r, 1), r.IntN(1000)), 1000+r.IntN(9000), 5+r.IntN(15)
		out = append(out, step{"list_issues", map[string]any{"repo": repo}, list(n, func(i int) map[string]any {
			return map[string]any{"number": newest - 7*i, "title": words(r, 3), "comments": r.IntN(9)}
		})})
		for i := r.IntN(3); i < n && r.Float64() < 0.8; i++ {
			of := map[string]any{"repo": repo, "number": newest - 7*i}
			out = append(out, step{"get_issue", of, words(r, 9)})
			if r.Float64() < 0.4 {
				out = append(out, step{"get_comments", of, words(r, 5)})
			}
		}
	}
	return out
}

func documents(r *rand.Rand) (out []step) {
	for range 1 + r.IntN(4) {
		first := r.IntN(1 << 24)
		id := func(i int) string { return fmt.Sprintf("doc_%06x", first+i*1373) }
		var found []string
		for i := range 10 {
			found = append(found, fmt.Sprintf("%d. %s (id: %s)", i+1, words(r, 3), id(i)))
		}
		out = append(out, step{"search", map[string]any{"query": words(r, 3)}, strings.Join(found, "\n")})
		for i, p := range []float64{0.7, 0.6, 0.45, 0.3, 0.2, 0.1, 0.1} {
			if r.Float64() < p {
				out = append(out, step{"retrieve", map[string]any{"id": id(i)}, words(r, 9)})
			}
		}
	}
	return out
}

func notes(r *rand.Rand) (out []step) {
	paths := make([]string, 4+r.IntN(6))
	for i := range paths {
		paths[i] = fmt.Sprintf("notes/%s-%d.md", words(r, 1), r.IntN(10_000))
	}
	out = append(out, step{"list_notes", map[string]any{"folder": "notes"}, list(len(paths), func(i int) map[string]any { return map[string]any{"path": paths[i]} })})
	for _, path := range paths[:1+r.IntN(len(paths))] {
		out = append(out, step{"read_note", map[string]any{"path": path}, words(r, 9)})
		if r.Float64() < 0.2 {
			out = append(out, step{"append_note", map[string]any{"path": path, "text": words(r, 4)}, "ok"},
				step{"read_note", map[string]any{"path": path}, words(r, 9)})
		}
	}
	return out
}

func tables(r *rand.Rand) (out []step) {
	names := strings.Fields(words(r, 4+r.IntN(5)))
	out = append(out, step{"list_tables", map[string]any{"schema": "public"}, list(len(names), func(i int) map[string]any { return map[string]any{"name": names[i]} })})
	for _, tool := range []string{"describe_table", "sample_rows"} {
		for _, name := range names {
			if r.Float64() < 0.6 {
				out = append(out, step{tool, map[string]any{"table": name}, words(r, 4)})
			}
		}
	}
	return out
}

// together makes one to four calls of one agent at a time.
func together(r *rand.Rand) (out []step) {
	kinds := []func(*rand.Rand) []step{issues, documents, notes, tables}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	parts := [][]step{kinds[0](r), kinds[1](r), kinds[2](r)}
	for left := true; left; {
		left = false
		for i, part := range parts {
			n := min(1+r.IntN(4), len(part))
			out, parts[i] = append(out, part[:n]...), part[n:]
			left = left || len(parts[i]) > 0
		}
	}
	return out
}
