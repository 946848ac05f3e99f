package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	config    string
	all, json bool
}

func explainCommand() *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain TOOL",
		Short: "Explain whether a tool's results are cached and prefetched",
		Long: `Prints whether a tool's results are cached and prefetched and, if not, why and which line
of the configuration would change that. With -v it also prints everything known about the
tool, each with its layer: default, annotation (the server's own claim), provider NAME, or
FILE:LINE of the configuration. It starts nothing: annotations are those of the last
connection.

TOOL is upstream/tool, or upstream__tool as clients see it, or the tool's own name if no
other server has it.`,
		Example: `  mcpschedd explain github/list_issues
  mcpschedd explain -v github__list_issues`,
		Args:              takes(1, 1, "the name of a tool"),
		ValidArgsFunction: completeTools(&o.config),
		RunE: func(c *cobra.Command, words []string) error {
			return explain(words[0], o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &o.config)
	c.Flags().BoolVarP(&o.all, "verbose", "v", false, "print every field of the tool's model")
	c.Flags().BoolVar(&o.json, "json", false, "print everything as JSON")
	return c
}

// explain prints whether the results of a tool are cached and prefetched, and why, and with -v
// the tool's model with the layer of each field. It starts nothing: annotations are those of the
// last connection.
func explain(name string, f explainOptions, stdout, stderr io.Writer) error {
	c, dir, err := loadWithState(f.config)
	if err != nil {
		return err
	}
	if err := disabled(c, name); err != nil {
		return err
	}
	o := options(c, dir, slog.New(slog.DiscardHandler))
	if len(o.Upstreams) == 0 {
		return noUpstream(c)
	}
	at, tool, err := find(lastKnowns(o.Upstreams), name)
	if err != nil {
		return err
	}
	for _, note := range at.notes(tool) {
		say(stderr, "note: %s", note)
	}
	u, hints := proxy.WithServerClaims(at.Model, at.offer, tool)
	verdict := o.Models.Verdict(u, tool, hints, use(c, at.Upstream))
	m := o.Models.Resolve(u, tool, hints)
	m.Sources = exact(c, m.Sources)
	if f.json {
		members, err := withVerdict(m, verdict)
		if err != nil {
			return err
		}
		return printJSON(stdout, members)
	}
	fmt.Fprintf(stdout, "%s/%s\n%s\n", m.Upstream, m.Tool, verdict)
	for _, word := range knownBy(u, m) {
		fmt.Fprintln(stdout, word)
	}
	if !f.all {
		return nil
	}
	_, err = m.WriteTo(stdout)
	return err
}

// use returns the settings outside [tools.*] that affect the results of an upstream.
func use(c *config.Config, u proxy.Upstream) valuemodel.PrefetchSettings {
	return valuemodel.PrefetchSettings{
		Prefetch: c.Enrichment.Mode, MaxAge: time.Duration(c.Enrichment.MaxAge), Dollars: c.Enrichment.MaxDollars, Exclusive: u.Exclusive,
	}
}

// knownBy describes the configured values by which the server, and the service behind it, were
// recognised.
func knownBy(u valuemodel.Upstream, m *valuemodel.Model) (all []string) {
	if m.Origin != "" {
		all = append(all, "known by: "+m.Origin)
	}
	if u.Inferred.Host != "" {
		text := "service behind it: " + u.Inferred.String()
		if !u.Trust {
			text += ", used only with trust = true"
		}
		all = append(all, text)
	}
	return all
}

// withVerdict returns a model as JSON, with its verdict as one more member.
func withVerdict(m *valuemodel.Model, v valuemodel.Verdict) (members map[string]json.RawMessage, err error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	members["verdict"], err = json.Marshal(v)
	return members, err
}

// exact returns sources with the exact line of each configured field. A model has only the line
// on which the block begins.
func exact(c *config.Config, sources map[string]string) map[string]string {
	list, _ := rules(c)
	out := maps.Clone(sources)
	for field, source := range sources {
		if at := c.Where(source); at != "" { // a key of an upstream
			out[field] = at
		}
		for i, t := range c.Tools {
			block := config.Key("tools", t.Name)
			if at := c.Where(fieldKey(block, list[i].Layer, field)); at != "" && c.Where(block) == source {
				out[field] = at
			}
		}
	}
	return out
}

// fieldKey returns the configuration key of a field that the block sets.
func fieldKey(block string, l valuemodel.Layer, field string) string {
	// If several entries set the same field, the last one applies.
	for i, e := range slices.Backward(l.Invalidates) {
		if e.Key() == field {
			return fmt.Sprintf("%s.invalidates[%d]", block, i)
		}
	}
	for i, f := range slices.Backward(l.FollowUps) {
		if f.Key() == field {
			return fmt.Sprintf("%s.follow_up[%d]", block, i)
		}
	}
	kind, name, _ := strings.Cut(field, ".")
	if name == "" {
		return block + "." + kind
	}
	return block + "." + config.Key(kind, name)
}
