package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// explainOptions are its flags.
type explainOptions struct {
	config    string
	all, json bool
}

func explainCommand() *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain TOOL",
		Short: "Say whether a tool is cached and fetched ahead, and why not",
		Long: `Prints whether answers of a tool are cached and fetched ahead, why not, and the line of
the configuration that would change it. With -v also all that is known of the tool, and
which layer says so: default, annotation (the server's own word), provider NAME, or
FILE:LINE of the configuration. Starts nothing: annotations are those the server gave
when last connected.

TOOL is upstream/tool, or the name that clients see, upstream__tool, or the tool's own
name if no other upstream has it.`,
		Example: `  mcpschedd explain github/list_issues
  mcpschedd explain -v github__list_issues`,
		Args:              takes(1, 1, "the name of a tool"),
		ValidArgsFunction: completeTools(&o.config),
		RunE: func(c *cobra.Command, words []string) error {
			return explain(words[0], o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &o.config)
	c.Flags().BoolVarP(&o.all, "verbose", "v", false, "print every field of its model")
	c.Flags().BoolVar(&o.json, "json", false, "print it all as JSON")
	return c
}

// explain prints what is done with the answers of one tool and why, and, asked to, all that
// is known of it with the layer that says so. It starts nothing: annotations come from what
// the server said when it was last connected.
func explain(name string, f explainOptions, stdout, stderr io.Writer) error {
	c, err := load(f.config)
	if err != nil {
		return err
	}
	dir, err := stateDir(c)
	if err != nil {
		return err
	}
	o := options(c, dir, slog.New(slog.DiscardHandler))
	if len(o.Upstreams) == 0 {
		return hinted{misused{errors.New("no upstream is configured")}, "the configuration is " + orDefaults(c.Path)}
	}
	at, tool, err := find(known(o.Upstreams), name)
	if err != nil {
		return err
	}
	for _, note := range at.notes(tool) {
		fmt.Fprintf(stderr, "mcpschedd: note: %s\n", note)
	}
	u, hints := proxy.Said(at.Model, at.offer, tool)
	verdict := o.Models.Verdict(u, tool, hints, use(c, at.Upstream))
	m := byKey(c).Resolve(u, tool, hints)
	m.Sources = exact(c, m.Sources)
	if f.json {
		return printJSON(stdout, m, verdict)
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

// use is what the rest of the configuration says of the answers of an upstream.
func use(c *config.Config, u proxy.Upstream) valuemodel.Use {
	return valuemodel.Use{
		Prefetch: c.Enrichment.Mode, MaxAge: time.Duration(c.Enrichment.MaxAge), Dollars: c.Enrichment.MaxDollars, Exclusive: u.Exclusive,
	}
}

// knownBy are those words of the operator's by which the server, and the service behind it, are known.
func knownBy(u valuemodel.Upstream, m *valuemodel.Model) (all []string) {
	if m.Origin != "" {
		all = append(all, "known by: "+m.Origin)
	}
	if u.Inferred.Host != "" {
		text := "service behind it: " + u.Inferred.String()
		if !u.Trust {
			text += ", which counts with trust = true"
		}
		all = append(all, text)
	}
	return all
}

// printJSON prints a model with the verdict on it.
func printJSON(w io.Writer, m *valuemodel.Model, v valuemodel.Verdict) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if members["verdict"], err = json.Marshal(v); err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(members)
}

// lastKnown is a configured upstream, and what its server last said.
type lastKnown struct {
	proxy.Upstream
	offer *upstream.Offer // nil: nothing is known
}

func (k lastKnown) name() string { return k.Spec.Name }

// tools are the names of the tools it is known to have.
func (k lastKnown) tools() []string {
	if k.offer == nil {
		return nil
	}
	var names []string
	for _, item := range k.offer.Lists[upstream.Tools] {
		names = append(names, item.Name)
	}
	return names
}

func (k lastKnown) has(tool string) bool { return slices.Contains(k.tools(), tool) }

// notes say what the model of a tool does not show.
func (k lastKnown) notes(tool string) []string {
	var notes []string
	if k.offer == nil {
		notes = append(notes, fmt.Sprintf("upstream %q: annotations not known: it was never connected; its own word counts once a client has used it through the proxy", k.name()))
	}
	if !k.Allows(tool) {
		notes = append(notes, fmt.Sprintf("upstream %q: tools leaves %q out: clients do not see it", k.name(), tool))
	}
	return notes
}

// known reads the last-known copies. One that cannot be read is as good as none.
func known(upstreams []proxy.Upstream) []lastKnown {
	all := make([]lastKnown, len(upstreams))
	for i, u := range upstreams {
		all[i].Upstream = u
		if offer, err := u.Store.Known(); err == nil {
			all[i].offer = offer
		}
	}
	return all
}

// find says which tool is meant by "upstream/tool", by "upstream__tool" as
// clients see it, or by a name that one upstream alone has or may have.
func find(all []lastKnown, name string) (lastKnown, string, error) {
	for _, separator := range []string{"/", "__"} {
		owner, tool, _ := strings.Cut(name, separator)
		i := slices.IndexFunc(all, func(k lastKnown) bool { return k.name() == owner && tool != "" })
		if i < 0 {
			continue
		}
		if k := all[i]; k.offer != nil && !k.has(tool) {
			return k, tool, unknown(all[i:i+1], name, fmt.Errorf("upstream %q has no tool %q", owner, tool))
		}
		return all[i], tool, nil
	}
	return findBare(all, name)
}

// findBare looks for a tool by its own name: among what upstreams are known to
// have, then among those of which nothing is known. What begins like the name of
// an upstream is rather a slip in that.
func findBare(all []lastKnown, name string) (lastKnown, string, error) {
	var upstreams []string
	for _, k := range all {
		upstreams = append(upstreams, k.name())
	}
	owner, _, divided := strings.Cut(name, "__")
	slip := strings.Contains(name, "/") || divided && nearest.New(upstreams).To(owner) != ""
	var has, may []lastKnown
	for _, k := range all {
		switch {
		case k.has(name):
			has = append(has, k)
		case k.offer == nil && !slip:
			may = append(may, k)
		}
	}
	if len(has) == 0 {
		has = may
	}
	switch len(has) {
	case 0:
		return lastKnown{}, "", unknown(all, name, fmt.Errorf("no upstream has a tool %q", name))
	case 1:
		return has[0], name, nil
	}
	var names []string
	for _, k := range has {
		names = append(names, k.name()+"/"+name)
	}
	return lastKnown{}, "", hinted{misused{fmt.Errorf("%q may be a tool of several upstreams", name)}, "name one: " + strings.Join(names, ", ")}
}

// unknown is an error about a name, with what it may have been meant to be.
func unknown(all []lastKnown, name string, err error) error {
	written := make(map[string]string) // what would have been understood → upstream/tool
	var upstreams []string
	for _, k := range all {
		upstreams = append(upstreams, k.name())
		for _, tool := range k.tools() {
			full := k.name() + "/" + tool
			written[full], written[k.name()+"__"+tool] = full, full
			if _, taken := written[tool]; !taken {
				written[tool] = full
			}
		}
	}
	if near := nearest.New(slices.Collect(maps.Keys(written))).To(name); near != "" {
		return hinted{misused{err}, fmt.Sprintf("did you mean %q?", written[near])}
	}
	owner, _, _ := strings.Cut(strings.ReplaceAll(name, "__", "/"), "/")
	if near := nearest.New(upstreams).To(owner); near != "" && near != owner {
		return hinted{misused{err}, fmt.Sprintf("did you mean the upstream %q?", near)}
	}
	return hinted{misused{err}, "mcpschedd check --connect lists the tools of every upstream"}
}

// byKey are the models with the key of a block as the source of what it sets: of
// two on one line FILE:LINE would not tell which.
func byKey(c *config.Config) *valuemodel.Models {
	said, _ := rules(c)
	for i, t := range c.Tools {
		said[i].Source = config.Key("tools", t.Name)
	}
	m, _ := valuemodel.Compile(said)
	return m
}

// exact says for each field that the configuration sets at which line it does.
func exact(c *config.Config, sources map[string]string) map[string]string {
	said, _ := rules(c)
	out := maps.Clone(sources)
	for field, source := range sources {
		key := source // of an upstream
		if i := slices.IndexFunc(c.Tools, func(t config.Tool) bool { return config.Key("tools", t.Name) == source }); i >= 0 {
			key = fieldKey(source, said[i].Layer, field)
		}
		if at := cmp.Or(c.Where(key), c.Where(source)); at != "" {
			out[field] = at
		}
	}
	return out
}

// fieldKey is the configuration key of a field that the block sets.
func fieldKey(block string, l valuemodel.Layer, field string) string {
	// Of several that say the same of one the last counts.
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
