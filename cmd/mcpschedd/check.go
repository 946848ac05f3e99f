package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"mcpschedd/internal/age"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// checkFlags are the flags of check.
type checkFlags struct {
	config       string
	connect, all bool
}

func checkCommand() *cobra.Command {
	var o checkFlags
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Validate the configuration; --connect also starts every server",
		Long: `Prints every mistake in the configuration as file:line: key: message.

With --connect it also starts every server, with the environment that servers of connect
get, and prints which ones work, then a row for each: its tools, how many of them are
cacheable and prefetchable, and the line that would change most. It warns of names and
tool counts that some clients do not accept, and of [tools.*] blocks, filters, pins and
plans that name tools that do not exist.`,
		Example: `  mcpschedd check
  mcpschedd check --connect`,
		Args: takes(0, 1, ""),
		RunE: func(c *cobra.Command, words []string) error {
			if len(words) > 0 {
				if o.config != "" {
					return usage("--config and a file: want one of them")
				}
				o.config = words[0]
			}
			return check(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &o.config)
	c.Flags().BoolVar(&o.connect, "connect", false, "also start every server; exit code 1 if one is not available")
	c.Flags().BoolVarP(&o.all, "verbose", "v", false, "with --connect: also print lines to paste for unclassified\ntools")
	return c
}

// check validates the configuration and, with --connect, starts every upstream.
func check(ctx context.Context, f checkFlags, stdout, stderr io.Writer) error {
	c, err := load(f.config)
	if err == nil && c.Path == "" {
		return noUpstream(c)
	}
	if err == nil && c.Positions == nil { // there is no file
		fmt.Fprintf(stdout, "no configuration at %s: the built-in defaults apply, and no server is configured; %s\n", c.Path, toBegin)
		return nil
	}
	if err == nil {
		err = storeProblem(c)
	}
	if mistakes, ok := errors.AsType[*config.Error](err); ok {
		fmt.Fprintln(stdout, mistakes)
		return hinted{misused{errors.New("the configuration cannot be used")}, "each line above names file, line and key"}
	}
	if err != nil {
		return misused{err}
	}
	fmt.Fprintf(stdout, "%s: ok (%s)\n", c.Path, record.Counted(len(c.Upstreams), "server")+
		more(len(c.Limits), "[limits] block")+more(len(c.Plans), "plan")+more(len(c.Tools), "[tools] block"))
	for _, w := range slices.Concat(c.Warnings, c.Unusable(os.LookupEnv)) {
		w.Message = "warning: " + w.Message
		fmt.Fprintln(stdout, w)
	}
	if !f.connect {
		return nil
	}
	return survey(ctx, c, f.all, stdout, stderr)
}

// more returns a number of things after a comma, or "" for none.
func more(n int, thing string) string {
	if n == 0 {
		return ""
	}
	return ", " + record.Counted(n, thing)
}

// survey starts every upstream, and prints what it offers and how its tools are treated; with
// all also lines to paste. It waits for a server as long as serve does before it kills the server, which may
// be installing a package. If interrupted, it prints what it knows.
func survey(ctx context.Context, c *config.Config, all bool, stdout, stderr io.Writer) error {
	dir, err := stateDir(c)
	if err != nil {
		return err
	}
	o := proxyOptions(connectedWorkplace(), c, dir, slog.New(slog.DiscardHandler))
	for i := range o.Upstreams { // the offers are saved, for explain
		o.Upstreams[i].Store.Load, o.Upstreams[i].Stderr, o.Upstreams[i].Learned = nil, nil, nil
	}
	longest := upstream.HandshakeFactor * c.Server.StartTimeout
	late := fmt.Errorf("it has not answered within %s (%d times start_timeout)", age.Text(longest), upstream.HandshakeFactor)
	bounded, cancel := context.WithTimeoutCause(ctx, longest, late)
	defer cancel()
	waiting := func(name string) {
		say(stderr, "waiting for %s, up to %s: npx and the like install a package at its first start; Ctrl-C prints the other servers", name, age.Text(longest))
	}
	var found []proxy.Surveyed
	withProxy(o, func(srv *proxy.Server) { found = srv.Survey(bounded, waiting) })
	var text strings.Builder
	usable := writeRows(&text, c, found)
	for _, f := range found {
		if lines := linesToPaste(c, f); all && lines != "" {
			fmt.Fprintf(&text, "\n# %s: these tools are unclassified, so each call of them counts as a write. Check these lines before you paste them:\n%s", f.Upstream, lines)
		}
	}
	text.WriteString(unmatched(c, o.Models, found))
	io.WriteString(stdout, text.String())
	if err := ctx.Err(); err != nil {
		return err
	}
	if usable < len(found) {
		return fmt.Errorf("%d of %d servers are not available", len(found)-usable, len(found))
	}
	return nil
}

// manyTools is the limit of some clients (VS Code).
const manyTools = 128

// writeRows prints which servers work, then a row for each upstream, in the order of the file. It
// returns the number of those that work.
func writeRows(out io.Writer, c *config.Config, found []proxy.Surveyed) (usable int) {
	listed, w := 0, new(strings.Builder)
	var away []string
	for _, u := range c.Upstreams {
		i := slices.IndexFunc(found, func(f proxy.Surveyed) bool { return f.Upstream == u.Name })
		switch {
		case i < 0:
			fmt.Fprintf(w, "– %s: enabled = false\n", u.Name)
		case errors.Is(found[i].Problem, context.Canceled): // it may work
			fmt.Fprintf(w, "– %s: it has not answered yet\n", u.Name)
		case found[i].Offer == nil:
			away = append(away, u.Name)
			fmt.Fprintf(w, "✗ %s: %s\n", u.Name, sanitized(reason(found[i].Problem)))
		default:
			usable++
			listed += writeRow(w, found[i])
		}
	}
	if listed > manyTools && c.Server.Tools == "all" {
		fmt.Fprintf(w, "warning: %d tools in all: some clients accept at most %d; [upstreams.NAME] tools = { allow = […] } lists fewer, [server] tools = \"auto\" three that find and call the rest, to clients that can ask their user\n", listed, manyTools)
	}
	fmt.Fprintf(out, "%d of %d servers work", usable, len(found))
	if len(away) > 0 {
		fmt.Fprintf(out, "; not available: %s", strings.Join(away, ", "))
	}
	fmt.Fprintf(out, "\n%s", w)
	return usable
}

// writeRow prints what an upstream offers and how its tools are treated, and returns the number
// of tools that clients see.
func writeRow(w io.Writer, f proxy.Surveyed) (listed int) {
	var names []string
	for _, t := range f.Tools {
		if t.Listed != "" {
			names = append(names, t.Listed)
		}
	}
	lists := f.Offer.Lists
	others := more(len(lists[upstream.Prompts]), "prompt") + more(len(lists[upstream.Resources]), "resource") + more(len(lists[upstream.Templates]), "template")
	fmt.Fprintf(w, "✓ %s %s, %d cacheable, %d prefetchable%s (%d ms)\n", f.Upstream, record.Counted(len(names), "tool"),
		f.Status.Cacheable, f.Status.Prefetchable, others, f.Took.Milliseconds())
	line := func(before, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %s%s\n", before, text)
		}
	}
	if len(f.Tools) > 0 { // the same for every tool
		line("known by: ", f.Tools[0].Model.Origin)
	}
	line("", f.Status.Why)
	line("to change that: ", f.Status.Change)
	line("tools: ", record.Printable(strings.Join(names, ", ")))
	for _, t := range f.Tools {
		line("warning: ", t.Warning)
	}
	return len(names)
}

// reason returns why an upstream is not available: the cause, and the last lines on stderr.
func reason(problem error) string {
	away, ok := errors.AsType[*upstream.Unavailable](problem)
	if !ok {
		return problem.Error()
	}
	return strings.Join(append([]string{away.Cause.Error()}, away.Stderr...), "\n")
}

// unmatched returns warnings about blocks, filters, pins and plans of the configuration that name tools that
// do not exist. An upstream that was not surveyed may have any tool, and check warns of one that is not there.
func unmatched(c *config.Config, models *valuemodel.Models, found []proxy.Surveyed) string {
	var names []string
	asked := make(map[string]bool) // upstream → it has an offer
	for _, f := range found {
		asked[f.Upstream] = f.Offer != nil
		for _, t := range f.Tools {
			names = append(names, f.Upstream+"/"+t.Model.Tool)
		}
	}
	everyone := !slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool { return !asked[u.Name] })
	var b strings.Builder
	for _, p := range models.Unmatched(names) {
		if owner, _, full := strings.Cut(p.Pattern, "/"); p.Rule < len(c.Tools) && (full && asked[owner] || everyone && (!full || valuemodel.IsGlob(owner))) { // tune rewrites the other rules
			problem := c.RuleProblem(p)
			problem.Message = "warning: " + problem.Message
			fmt.Fprintln(&b, problem)
		}
	}
	for _, f := range found {
		if f.Offer != nil {
			warnOfFilter(&b, c, f)
		}
	}
	for i, name := range c.Server.Pinned {
		if owner, _, _ := strings.Cut(name, "/"); !valuemodel.IsGlob(name) && asked[owner] && !slices.Contains(names, name) {
			warnOfTool(&b, c, fmt.Sprintf("server.pinned[%d]", i), name, names)
		}
	}
	for _, p := range c.Plans {
		var steps []struct{ Tool string }
		_ = json.Unmarshal(p.Steps, &steps) // the plan is valid
		for i, s := range steps {
			if owner, _, full := strings.Cut(s.Tool, "/"); full && asked[owner] && !slices.Contains(names, s.Tool) {
				warnOfTool(&b, c, fmt.Sprintf("%s.steps[%d].tool", config.Key("plans", p.Name), i), s.Tool, names)
			}
		}
	}
	return b.String()
}

// warnOfFilter prints warnings about an upstream's filter of tools if it names tools that do not exist. A
// glob may be for tools that are yet to come.
func warnOfFilter(w io.Writer, c *config.Config, f proxy.Surveyed) {
	i := slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Name == f.Upstream })
	var tools []string
	for _, t := range f.Tools {
		tools = append(tools, t.Model.Tool)
	}
	warn := func(list string, patterns []string) {
		for n, name := range patterns {
			if !valuemodel.IsGlob(name) && !slices.Contains(tools, name) {
				warnOfTool(w, c, fmt.Sprintf("%s.tools.%s[%d]", config.Key("upstreams", f.Upstream), list, n), name, tools)
			}
		}
	}
	warn("allow", c.Upstreams[i].Tools.Allow)
	warn("deny", c.Upstreams[i].Tools.Deny)
}

// warnOfTool prints a warning that no tool has the name in a key, with the most similar known one.
func warnOfTool(w io.Writer, c *config.Config, key, name string, known []string) {
	fmt.Fprintln(w, c.Problem(key, "warning: no tool matches %q%s", name, nearest.Question(name, known)))
}

// linesToPaste returns configuration lines for the unclassified tools of an upstream.
func linesToPaste(c *config.Config, f proxy.Surveyed) string {
	var b strings.Builder
	for _, t := range f.Tools {
		if !t.Hidden && t.Model.Unclassified() {
			b.WriteString(suggestion(c, f.Upstream+"/"+t.Model.Tool, t))
		}
	}
	return b.String()
}

// suggestion returns the lines that classify one tool, under its name in the configuration. They are
// comments if its name does not tell what it does, or a block for it exists. There are none for a
// name that is unprintable or a glob, as pasting it could affect other tools.
func suggestion(c *config.Config, name string, t catalog.SurveyedTool) string {
	if valuemodel.IsGlob(t.Model.Tool) || strings.ContainsFunc(t.Model.Tool, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	mark, class, why := "", valuemodel.Suggest(t.Model.Tool), "suggested by its name"
	if class == valuemodel.Indeterminate {
		mark, class, why = "#", valuemodel.ReadOnly, "only if true: its name does not tell"
	}
	key := config.Key("tools", name)
	if at := c.Where(key); at != "" {
		mark, why = "#", "for the block at "+at+"; "+why
	}
	if hint := t.Hints.ReadOnly; hint != nil {
		why += fmt.Sprintf("; annotation readOnlyHint = %t", *hint)
	}
	return fmt.Sprintf("%s[%s]\n%sside_effect_class = %q   # %s\n", mark, key, mark, class, why)
}
