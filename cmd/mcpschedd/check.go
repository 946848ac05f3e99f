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

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
)

// checkOptions are the flags of check.
type checkOptions struct {
	config       string
	connect, all bool
}

func checkCommand() *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Validate the configuration; --connect also starts every server",
		Long: `Prints every mistake in the configuration as file:line: key: message.

With --connect it also starts every server and prints a row for each: its tools, how many
of them are cacheable and prefetchable, and the line that would change most. It warns of
names and tool counts that some clients do not accept, and of [tools.*] blocks for tools
that do not exist.`,
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
			return check(c.Context(), o, c.OutOrStdout())
		},
	}
	configFlag(c, &o.config)
	c.Flags().BoolVar(&o.connect, "connect", false, "also start every server; exit code 1 if one cannot be used")
	c.Flags().BoolVarP(&o.all, "verbose", "v", false, "with --connect: also print lines to paste for unclassified\ntools")
	return c
}

// check validates the configuration and, with --connect, starts every upstream.
func check(ctx context.Context, f checkOptions, stdout io.Writer) error {
	path, found, err := config.Search(f.config, os.Getenv)
	if err != nil {
		return hinted{misused{err}, "mcpschedd help lists where the configuration is searched for"}
	}
	if !found {
		_, err := fmt.Fprintf(stdout, "no configuration at %s: the built-in defaults apply, and no server is configured; %s\n", path, toBegin)
		return err
	}
	c, text := config.Check(path, os.LookupEnv, toolProblems)
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if c == nil {
		return hinted{misused{errors.New("the configuration cannot be used")}, "each line above names file, line and key"}
	}
	if !f.connect {
		return nil
	}
	return survey(ctx, c, f.all, stdout)
}

// survey starts every upstream, and prints what it offers and how its tools are treated; with
// all also lines to paste.
func survey(ctx context.Context, c *config.Config, all bool, stdout io.Writer) error {
	dir, err := stateDir(c)
	if err != nil {
		return err
	}
	o := options(c, dir, slog.New(slog.DiscardHandler))
	for i := range o.Upstreams { // the offers are saved, for explain
		o.Upstreams[i].Store.Load, o.Upstreams[i].Stderr, o.Upstreams[i].Learned = nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Server.StartTimeout))
	defer cancel()
	var found []proxy.Surveyed
	withProxy(o, func(srv *proxy.Server) { found = srv.Survey(ctx) })
	var text strings.Builder
	usable, enabled := writeRows(&text, c, o, found)
	var tools []proxy.SurveyedTool
	for _, f := range found {
		tools = append(tools, f.Tools...)
	}
	if all {
		for _, u := range o.Upstreams {
			text.WriteString(linesToPaste(c, o.Models, u.Model, tools))
		}
	}
	text.WriteString(compare(c, o, found, tools) + untargeted(c, tools))
	if _, err := io.WriteString(stdout, text.String()); err != nil {
		return err
	}
	if usable < enabled {
		return fmt.Errorf("%d of %d servers cannot be used", enabled-usable, enabled)
	}
	return nil
}

// compare returns warnings about rules for tools that do not exist. An upstream that was not
// surveyed may have any tool.
func compare(c *config.Config, o proxy.Options, found []proxy.Surveyed, tools []proxy.SurveyedTool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Model.Upstream+"/"+t.Model.Tool)
	}
	var b strings.Builder
	for _, p := range o.Models.Unmatched(names) {
		if p.Rule >= len(c.Tools) { // rules of tuned.toml, which tune rewrites
			continue
		}
		key := ruleProblem(c, p).Key
		warned := slices.ContainsFunc(c.Warnings, func(w config.Problem) bool { return w.Key == key })
		if !warned && !mayExist(c, found, p.Pattern) {
			fmt.Fprintln(&b, c.Problem(key, "warning: %s", p.Text))
		}
	}
	return b.String()
}

// untargeted returns warnings about invalidates_only for tools without any other statement of
// which results their calls invalidate.
func untargeted(c *config.Config, tools []proxy.SurveyedTool) string {
	idle := make(map[string][]string) // FILE:LINE of a block → such tools
	for _, t := range tools {
		if t.Model.OnlyIgnored {
			at := t.Model.Sources["invalidates_only"]
			idle[at] = append(idle[at], strconv.Quote(t.Model.Upstream+"/"+t.Model.Tool))
		}
	}
	var b strings.Builder
	for _, t := range c.Tools {
		key := config.Key("tools", t.Name)
		if at := c.Where(key); t.InvalidatesOnly != nil && *t.InvalidatesOnly && idle[at] != nil {
			fmt.Fprintln(&b, c.Problem(key+".invalidates_only", "warning: ignored for %s: nothing says what else a call makes stale", strings.Join(idle[at], ", ")))
			delete(idle, at)
		}
	}
	return b.String()
}

// mayExist reports whether an upstream that was not surveyed could have a tool that matches the
// pattern.
func mayExist(c *config.Config, found []proxy.Surveyed, pattern string) bool {
	owner, _, full := strings.Cut(pattern, "/")
	return slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool {
		asked := slices.ContainsFunc(found, func(f proxy.Surveyed) bool { return f.Upstream == u.Name && f.Offer != nil })
		return !asked && (!full || owner == u.Name || strings.ContainsAny(owner, `*?[\`))
	})
}
