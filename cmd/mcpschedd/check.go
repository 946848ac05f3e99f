package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// checkOptions are its flags.
type checkOptions struct {
	config       string
	connect, all bool
}

func checkCommand() *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration; --connect also tries every upstream",
		Long: `Prints every mistake of the configuration as file:line: key: message.

With --connect it also starts every upstream and prints a row for each: its tools, how
many of them are cached and fetched ahead, and the line that would change most; with
warnings of what clients do not take (long names, many tools) and of [tools.*] blocks
about tools that do not exist.`,
		Example: `  mcpschedd check
  mcpschedd check --connect`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return check(c.Context(), o, c.OutOrStdout()) },
	}
	configFlag(c, &o.config)
	c.Flags().BoolVar(&o.connect, "connect", false, "also start every upstream; exit code 1 if one cannot be used")
	c.Flags().BoolVarP(&o.all, "verbose", "v", false, "with --connect: also lines to paste for the tools of which\nnothing says what they do")
	return c
}

// check validates the configuration and, asked to, tries every upstream.
func check(ctx context.Context, f checkOptions, stdout io.Writer) error {
	path, found, err := config.Search(f.config, os.Getenv)
	if err != nil {
		return hinted{misused{err}, "mcpschedd help says where the configuration is looked for"}
	}
	if !found {
		_, err := fmt.Fprintf(stdout, "no configuration at %s: the built-in defaults count, and no upstream is configured\n", path)
		return err
	}
	report := config.Check(path, os.LookupEnv, unmeant)
	if _, err := report.WriteTo(stdout); err != nil {
		return err
	}
	if !report.OK() {
		return hinted{misused{errors.New("the configuration cannot be used")}, "each line above names file, line and key"}
	}
	if !f.connect {
		return nil
	}
	return survey(ctx, report.Config, f.all, stdout)
}

// survey starts every upstream without touching what is kept of them, and prints what each
// offers and what is done with it; with all also lines to paste.
func survey(ctx context.Context, c *config.Config, all bool, stdout io.Writer) error {
	quiet := slog.New(slog.DiscardHandler)
	o := options(c, state.Dir{}, quiet)
	for i := range o.Upstreams {
		o.Upstreams[i].Store = upstream.Store{}
	}
	guard := upstream.NewGuard(quiet)
	defer guard.Close()
	srv := proxy.New(o, guard)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Server.StartTimeout))
	defer cancel()
	found := srv.Survey(ctx)
	var text strings.Builder
	usable, enabled := writeRows(&text, c, o, found)
	var tools []proxy.SurveyedTool
	for _, f := range found {
		tools = append(tools, f.Tools...)
	}
	if all {
		text.WriteString(classify(c, o, tools))
	}
	text.WriteString(compare(c, o, found, tools) + unaimed(c, tools))
	if _, err := io.WriteString(stdout, text.String()); err != nil {
		return err
	}
	if usable < enabled {
		return fmt.Errorf("%d of %d upstreams cannot be used", enabled-usable, enabled)
	}
	return nil
}

// classify gives lines to paste for the tools of which nobody says what they do.
func classify(c *config.Config, o proxy.Options, tools []proxy.SurveyedTool) string {
	var b strings.Builder
	for _, u := range o.Upstreams {
		var lines strings.Builder
		claimed, known := "", 0 // the provider that its server alone claims to be, and how many tools that knows
		for _, t := range tools {
			if t.Model.Upstream != u.Model.Name || t.Hidden || !t.Model.Unclassified() {
				continue
			}
			class, why := valuemodel.Suggest(t.Model.Tool), "suggested by its name"
			if vouched := vouchedFor(o.Models, u.Model, t); vouched.Class != t.Model.Class {
				class, why = vouched.Class, "as provider "+vouched.Provider+" has it, which the server only claims to be"
				claimed, known = vouched.Provider, known+1
			}
			lines.WriteString(suggestion(c, t, class, why))
		}
		if lines.Len() == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n# %s: nobody says what these tools do, so each call of them counts as a write. To paste, once checked:\n", u.Model.Name)
		if known > 0 {
			fmt.Fprintf(&b, "# (Its own name is that of a %q server. If it is one, provider = %q in [%s] classifies %d of them.)\n", claimed, claimed, config.Key("upstreams", u.Model.Name), known)
		}
		b.WriteString(lines.String())
	}
	return b.String()
}

// vouchedFor is the model of a tool if the operator said of its server what that
// says of itself.
func vouchedFor(models *valuemodel.Models, u valuemodel.Upstream, t proxy.SurveyedTool) *valuemodel.Model {
	u.Provider = t.Model.Provider
	return models.Resolve(u, t.Model.Tool, t.Hints)
}

// suggestion is the lines for one tool. They are comments where nothing can be
// suggested, or a block stands there already; and no lines at all where the name
// is not what it seems once pasted: it does not print, or is a pattern for others.
func suggestion(c *config.Config, t proxy.SurveyedTool, class valuemodel.Class, why string) string {
	if strings.ContainsFunc(t.Model.Tool, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*?[\`, r) }) {
		return fmt.Sprintf("# (Nothing to paste for %q: its name does not print, or stands for others.)\n", t.Model.Tool)
	}
	key := config.Key("tools", t.Model.Upstream+"/"+t.Model.Tool)
	mark := ""
	if class == valuemodel.Indeterminate {
		mark, class, why = "#", valuemodel.ReadOnly, "only if so: its name does not tell"
	}
	if at := c.Where(key); at != "" {
		mark, why = "#", "for the block at "+at+"; "+why
	}
	return fmt.Sprintf("%s[%s]\n%sside_effect_class = %q   # %s; %s\n", mark, key, mark, class, why, annotations(t.Hints))
}

// annotations says what a server says of a tool.
func annotations(h valuemodel.Hints) string {
	var said []string
	if h.ReadOnly != nil {
		said = append(said, fmt.Sprintf("readOnlyHint = %t", *h.ReadOnly))
	}
	if h.Destructive != nil {
		said = append(said, fmt.Sprintf("destructiveHint = %t", *h.Destructive))
	}
	if len(said) == 0 {
		return "no annotation"
	}
	return "annotation " + strings.Join(said, ", ")
}

// compare warns of what the configuration says of tools that do not exist. Of
// upstreams that were not asked, anything may exist.
func compare(c *config.Config, o proxy.Options, found []proxy.Surveyed, tools []proxy.SurveyedTool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Model.Upstream+"/"+t.Model.Tool)
	}
	patterns := patterns(c)
	var b strings.Builder
	for _, p := range o.Models.Unmatched(names) {
		if p.Rule >= len(c.Tools) { // tune writes it anew
			continue
		}
		key := ruleProblem(c, p).Key
		said := slices.ContainsFunc(c.Warnings, func(w config.Problem) bool { return w.Key == key })
		if !said && !mayExist(c, found, patterns[key]) {
			fmt.Fprintln(&b, c.Problem(key, "warning: %s", p.Text))
		}
	}
	return b.String()
}

// unaimed warns of invalidates_only where nothing says what else the calls of a
// tool make stale.
func unaimed(c *config.Config, tools []proxy.SurveyedTool) string {
	idle := make(map[string][]string) // FILE:LINE of a block → its tools of that kind
	for _, t := range tools {
		if t.Model.Unaimed {
			at := t.Model.Sources["invalidates_only"]
			idle[at] = append(idle[at], strconv.Quote(t.Model.Upstream+"/"+t.Model.Tool))
		}
	}
	var b strings.Builder
	for _, t := range c.Tools {
		key := config.Key("tools", t.Name)
		if at := c.Where(key); t.InvalidatesOnly != nil && *t.InvalidatesOnly && idle[at] != nil {
			fmt.Fprintln(&b, c.Problem(key+".invalidates_only", "warning: not obeyed for %s: nothing says what else a call makes stale", strings.Join(idle[at], ", ")))
			delete(idle, at)
		}
	}
	return b.String()
}

// mayExist reports whether an upstream that was not asked could have a tool that
// the pattern matches.
func mayExist(c *config.Config, found []proxy.Surveyed, pattern string) bool {
	owner, _, full := strings.Cut(pattern, "/")
	return slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool {
		asked := slices.ContainsFunc(found, func(f proxy.Surveyed) bool { return f.Upstream == u.Name && f.Offer != nil })
		return !asked && (!full || owner == u.Name || strings.ContainsAny(owner, `*?[\`))
	})
}

// patterns are what the configuration says of other tools, and of which.
func patterns(c *config.Config) map[string]string {
	out := make(map[string]string) // key → pattern
	for _, t := range c.Tools {
		key := config.Key("tools", t.Name)
		out[key] = t.Name
		for i, v := range t.Invalidates {
			out[fmt.Sprintf("%s.invalidates[%d]", key, i)] = v.Tool
		}
		for i, f := range t.FollowUp {
			if owner, _, full := strings.Cut(t.Name, "/"); full && !strings.Contains(f.Tool, "/") {
				f.Tool = owner + "/" + f.Tool // of the same upstream
			}
			out[fmt.Sprintf("%s.follow_up[%d].tool", key, i)] = f.Tool
		}
	}
	return out
}
