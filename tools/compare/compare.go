package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"mcpschedd/tools/launch"
)

// report is the result of a run, with a row for each server.
type report struct{ rows []*row }

// row is the result for one server.
type row struct {
	server server
	direct *facts
	again  *facts   // directly, from a second start: differences between the two starts do not count
	varies []string // those differences
	alone  []string // differences through a proxy for this server only, at its first and second start
	joined []string // differences through a proxy for all servers
}

// compare queries the servers one by one, and then all of them through one proxy.
func compare(ctx context.Context, o options, p *plan, progress io.Writer) (*report, error) {
	dir := o.keep
	if dir == "" {
		temp, err := os.MkdirTemp("", "mcpschedd-compare-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	file := filepath.Join(dir, "config.toml")
	if err := launch.Configure(file, proxySettings(p, dir)); err != nil {
		return nil, err
	}
	roots, err := rootsResult(p.Roots)
	if err != nil {
		return nil, err
	}
	proxy := []string{o.bin, "serve", "--config", file}

	r := &report{}
	for _, s := range p.Servers {
		fmt.Fprintf(progress, "compare: %s\n", s.Name)
		x := &row{server: s}
		direct := process{name: s.Name + ", direct", command: append([]string{s.Command}, s.Args...), env: s.Env, dir: s.Cwd, roots: roots, options: o}
		if x.direct, err = survey(ctx, direct, s.Calls); err != nil {
			return nil, err
		}
		if x.again, err = survey(ctx, direct, s.Calls); err != nil {
			return nil, err
		}
		alone := process{name: s.Name + ", alone", command: append(proxy, "--only", s.Name), roots: roots, options: o}
		first, err := survey(ctx, alone, s.Calls)
		if err != nil {
			return nil, err
		}
		// The proxy's first answer to initialize does not wait for servers, so for a server
		// without stored state it cannot have the declared capabilities.
		first.Capabilities, first.Instructions = x.direct.Capabilities, x.direct.Instructions
		got, err := survey(ctx, alone, s.Calls)
		if err != nil {
			return nil, err
		}
		x.varies = x.differences(x.again, "")
		x.alone = slices.Concat(x.differences(first, ""), x.differences(got, ""))
		r.rows = append(r.rows, x)
	}

	fmt.Fprintf(progress, "compare: all joined\n")
	c, err := start(ctx, process{name: "all joined", command: proxy, roots: roots, options: o})
	if err != nil {
		return nil, err
	}
	defer c.close()
	all, err := greet(c)
	if err != nil {
		return nil, err
	}
	return r, r.split(all, func(x *row, prefix string) ([]answer, error) { return askAll(c, x.server.Calls, prefix) })
}

// own is the prefix of the URIs of the proxy's own resources.
const own = "mcpschedd://"

// split assigns each server its part of the joined answers, and compares. The joined lists are
// those of the servers in sequence, without resources that an earlier one has.
func (r *report) split(all *facts, answers func(x *row, prefix string) ([]answer, error)) error {
	for i := range all.Lists { // the proxy's own items have no counterpart
		all.Lists[i] = slices.DeleteFunc(all.Lists[i], func(item json.RawMessage) bool { return strings.HasPrefix(key(i, item), own) })
	}
	seen := make(map[string]bool)
	for _, x := range r.rows {
		part := &facts{Capabilities: all.Capabilities, Instructions: all.Instructions}
		direct := *x.direct
		direct.Lists = nil
		for i := range lists {
			var mine []json.RawMessage
			for _, item := range x.direct.Lists[i] {
				if k := fmt.Sprint(i, key(i, item)); named(i) || !seen[k] {
					seen[k] = true
					mine = append(mine, item)
				}
			}
			direct.Lists = append(direct.Lists, mine)
			n := min(len(mine), len(all.Lists[i]))
			part.Lists = append(part.Lists, all.Lists[i][:n])
			all.Lists[i] = all.Lists[i][n:]
		}
		prefix := ""
		if len(r.rows) > 1 {
			prefix = x.server.Name + "__"
		}
		var err error
		if part.Answers, err = answers(x, prefix); err != nil {
			return err
		}
		y := *x
		y.direct = &direct
		x.joined = y.differences(part, prefix)
	}
	last := r.rows[len(r.rows)-1]
	for i, l := range lists {
		if n := len(all.Lists[i]); n > 0 {
			last.joined = append(last.joined, fmt.Sprintf("%s: %d more than all servers have, the first %.200s", l.method, n, all.Lists[i][0]))
		}
	}
	return nil
}

// differences returns the differences between got and the direct answers.
func (x *row) differences(got *facts, prefix string) []string {
	var out []string
	add := func(what, d string) {
		if d != "" {
			out = append(out, what+" "+d)
		}
	}
	var w, g any
	for from, to := range map[*facts]*any{x.direct: &w, got: &g} {
		if err := tokens(from.Capabilities).Decode(to); err != nil {
			add("capabilities", ": "+err.Error())
		}
	}
	add("capabilities", missing(w, g, ""))

	want, have := x.direct.Instructions, got.Instructions
	if prefix != "" && want != "" {
		want = "# " + x.server.Name + "\n" + want
		if strings.Contains(have, want) {
			have = want
		}
	}
	if prefix == "" || want != "" {
		add("instructions", firstDifference(quoted(want), quoted(have), ""))
	}

	for i, l := range lists {
		from, to := x.direct.Lists[i], got.Lists[i]
		if len(from) != len(to) {
			add(l.method, fmt.Sprintf(": got %d, want %d", len(to), len(from)))
		}
		if x.shuffled(i) {
			from, to = byKey(i, from), byKey(i, to)
		}
		for j := range min(len(from), len(to)) {
			if x.unsteady(l.method, j) {
				continue
			}
			before := ""
			if named(i) {
				before = prefix
			}
			add(fmt.Sprintf("%s/%d", l.method, j), firstDifference(from[j], to[j], before))
		}
	}
	for i, q := range x.server.Calls {
		if !x.unsteady(q.Method+" call", i) {
			add(fmt.Sprintf("%s call/%d", q.Method, i), firstDifference(encoded(x.direct.Answers[i]), encoded(got.Answers[i]), ""))
		}
	}
	return out
}

// shuffled reports whether the server itself varies the order of a list.
func (x *row) shuffled(list int) bool {
	if x.direct.Shuffled[list] || x.again.Shuffled[list] {
		return true
	}
	return !slices.EqualFunc(x.direct.Lists[list], x.again.Lists[list], sameBytes) &&
		slices.EqualFunc(byKey(list, x.direct.Lists[list]), byKey(list, x.again.Lists[list]), sameBytes)
}

// unsteady reports whether the server itself varies this answer.
func (x *row) unsteady(method string, i int) bool {
	what := fmt.Sprintf("%s/%d ", method, i)
	return slices.ContainsFunc(x.varies, func(v string) bool { return strings.HasPrefix(v, what) })
}

func (r *report) equal() bool {
	return !slices.ContainsFunc(r.rows, func(x *row) bool { return len(x.alone)+len(x.joined) > 0 })
}

// write prints a line for each server, and its differences below.
func (r *report) write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "server\ttools\tprompts\tresources\ttemplates\tcalls\tbytes\talone\tjoined")
	for _, x := range r.rows {
		bytes := len(x.direct.Capabilities) + len(x.direct.Instructions)
		for _, l := range x.direct.Lists {
			for _, item := range l {
				bytes += len(item)
			}
		}
		for _, a := range x.direct.Answers {
			bytes += len(encoded(a))
		}
		l := x.direct.Lists
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", x.server.Name, len(l[0]), len(l[1]), len(l[2]), len(l[3]),
			len(x.direct.Answers), bytes, verdict(x.alone), verdict(x.joined))
	}
	t.Flush()
	for _, x := range r.rows {
		for _, d := range x.alone {
			fmt.Fprintf(w, "%s, alone: %s\n", x.server.Name, d)
		}
		for _, d := range x.joined {
			fmt.Fprintf(w, "%s, joined: %s\n", x.server.Name, d)
		}
		for i, l := range lists {
			if x.shuffled(i) {
				fmt.Fprintf(w, "%s, order not compared, the server itself varies it: %s\n", x.server.Name, l.method)
			}
		}
		for _, d := range x.varies {
			fmt.Fprintf(w, "%s, not compared, the server itself varies: %s\n", x.server.Name, d)
		}
	}
}

func verdict(differences []string) string {
	if len(differences) == 0 {
		return "equal"
	}
	return fmt.Sprintf("%d differ", len(differences))
}

// quoted and encoded marshal values that cannot fail, as they were parsed from JSON.
func quoted(s string) []byte { b, _ := json.Marshal(s); return b }

func encoded(a answer) []byte { b, _ := json.Marshal(a); return b }

func rootsResult(uris []string) (json.RawMessage, error) {
	type root struct {
		URI string `json:"uri"`
	}
	roots := []root{}
	for _, u := range uris {
		roots = append(roots, root{u})
	}
	return json.Marshal(map[string]any{"roots": roots})
}

// proxySettings returns the same servers as a configuration of the proxy.
func proxySettings(p *plan, dir string) launch.Table {
	literal := func(s string) string { return strings.ReplaceAll(s, "${", "$${") }
	upstreams := make(launch.Table)
	for _, s := range p.Servers {
		args, env := []string{}, make(map[string]string)
		for _, a := range s.Args {
			args = append(args, literal(a))
		}
		for k, v := range s.Env {
			env[k] = literal(v)
		}
		u := launch.Table{"command": literal(s.Command), "args": args, "env": env}
		if s.Cwd != "" {
			u["cwd"] = literal(s.Cwd)
		}
		upstreams[s.Name] = u
	}
	return launch.Table{
		"server":    launch.Table{"state_dir": filepath.Join(dir, "state"), "startup_wait": "1m"},
		"telemetry": launch.Table{"events": "off"},
		"upstreams": upstreams,
	}
}
