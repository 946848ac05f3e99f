package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/config"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	config    string
	all, json bool
}

func explainCommand() *cobra.Command {
	var o explainFlags
	c := &cobra.Command{
		Use:   "explain NAME/TOOL",
		Short: "Explain whether a tool's results are cached and prefetched",
		Long: `Prints whether a tool's results are cached and prefetched and, if not, why and which line
of the configuration would change that. With -v it also prints everything known about the
tool, each with its layer: default, annotation (the server's own claim), provider NAME, or
FILE:LINE of the configuration. It starts nothing: annotations are those of the last
connection.

NAME is a server in the configuration, TOOL one of its tools under the server's own name;
NAME__TOOL and mcp__mcpschedd__NAME__TOOL, as clients see it, also work, and TOOL alone if
no other server has it.`,
		Example: `  mcpschedd explain github/list_issues
  mcpschedd explain -v github__list_issues`,
		Args:              takes(1, 1, "NAME/TOOL"),
		ValidArgsFunction: completeUpstreams(&o.config),
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
func explain(name string, f explainFlags, stdout, stderr io.Writer) error {
	c, dir, mistakes, err := loadServed(f.config, stateToRead)
	if err != nil {
		return err
	}
	o := proxyOptions(ownWorkplace(), c, dir, slog.New(slog.DiscardHandler))
	all := lastKnowns(o.Upstreams)
	at, tool, err := toolToExplain(c, all, name)
	if err := orMistakes(err, mistakes, c, at.Spec.Name, stderr); err != nil {
		return err
	}
	hidden := ""
	same := slices.IndexFunc(all, func(k lastKnown) bool { return k.name() != at.name() && k.has(tool) && k.Allows(tool) })
	if c.Server.NameStyle == "never" && same >= 0 {
		hidden = fmt.Sprintf("[server] name_style is \"never\" and server %q has a tool of that name too, so clients see only one of them", all[same].name())
	}
	if !at.Allows(tool) {
		hidden = leftOut(c, at.name(), tool)
	}
	if why := at.unknown(); why != "" {
		say(stderr, "note: %s", why)
	}
	learned, err := at.learnedState()
	if err != nil {
		say(stderr, "note: learned state of server %q: %v", at.name(), err)
	}
	u, hints := catalog.WithServerClaims(at.Model, at.offer, tool)
	settings := o.PrefetchSettings(at.Upstream)
	settings.Barred, settings.Proven = learned.Barred(tool), learned.Proven(tool, c.Enrichment.ShadowLabels)
	if settings.Barred == speculate.AnswersDiffer {
		settings.Barred, settings.AnswersDiffer = "", true
	}
	verdict := o.Models.Verdict(u, tool, hints, settings)
	m := o.Models.Resolve(u, tool, hints)
	if f.json {
		if hidden != "" {
			say(stderr, "note: %s", hidden)
		}
		return printJSON(stdout, json.RawMessage(jsonrpc.Set(jsonrpc.Marshal(m), "verdict", jsonrpc.Marshal(verdict))))
	}
	fmt.Fprintf(stdout, "%s/%s\n", m.Upstream, m.Tool)
	if hidden != "" {
		fmt.Fprintln(stdout, hidden)
	}
	fmt.Fprintln(stdout, verdict)
	if m.Origin != "" {
		fmt.Fprintln(stdout, "known by: "+m.Origin)
	}
	if u.Inferred.Host != "" {
		fmt.Fprintf(stdout, "service behind it: %s\n", u.Inferred)
	}
	if !f.all {
		return nil
	}
	_, err = m.WriteTo(stdout)
	return err
}

// toolToExplain returns the tool of a name that explain was given, and its upstream.
func toolToExplain(c *config.Config, all []lastKnown, name string) (at lastKnown, tool string, err error) {
	name = withoutClientPrefix(c, name)
	if err := checkEnabled(c, name); err != nil {
		return at, "", err
	}
	if len(c.Upstreams) == 0 {
		return at, "", noUpstream(c)
	}
	if at, tool, err = findTool(all, name); err != nil {
		if owner, _, full := strings.Cut(name, "/"); full && !hasUpstream(c, owner) {
			_, err = upstreamNamed(c, owner)
		}
		err = cmp.Or(checkEnabled(c, name+"/"), err)
	}
	return at, tool, err
}

// lastKnown is a configured upstream with its last known offer. Its storage is only read (see
// [state.Dir.OnlyRead]).
type lastKnown struct {
	catalog.Upstream
	offer *upstream.Offer // nil if unknown
}

func (k lastKnown) name() string { return k.Spec.Name }

// tools returns the names of its known tools.
func (k lastKnown) tools() (names []string) {
	for _, item := range k.offer.Items(upstream.Tools) {
		names = append(names, item.Name)
	}
	return names
}

// learnedState returns what was learned of the upstream; nothing if nothing was.
func (k lastKnown) learnedState() (learned speculate.State, err error) {
	err = k.Learned(func(stored speculate.State) (speculate.State, error) {
		learned = stored
		return stored, nil
	})
	return learned, err
}

// unknown returns a sentence that says why its tools' annotations are not known; "" if they are.
func (k lastKnown) unknown() string {
	switch {
	case k.Spec.Unusable != nil: // it may well have run for clients, which have other variables
		return fmt.Sprintf("server %q: annotations and learned state unknown here: %v", k.name(), k.Spec.Unusable)
	case k.offer == nil:
		return fmt.Sprintf("server %q: annotations unknown, as it was never connected; mcpschedd check --connect fetches them", k.name())
	}
	return ""
}

func (k lastKnown) has(tool string) bool { return slices.Contains(k.tools(), tool) }

// mayHave reports whether its tools are not known and the name is not a pattern.
func (k lastKnown) mayHave(tool string) bool { return k.offer == nil && !valuemodel.IsGlob(tool) }

// lastKnowns reads the last known offers. An unreadable one is ignored.
func lastKnowns(upstreams []catalog.Upstream) []lastKnown {
	all := make([]lastKnown, len(upstreams))
	for i, u := range upstreams {
		all[i].Upstream = u
		if offer, err := u.Store.LastOffer(); err == nil {
			all[i].offer = offer
		}
	}
	return all
}

// findTool returns the tool named by "NAME/TOOL", by "NAME__TOOL" as clients see it, or by a name
// that only one upstream has.
func findTool(all []lastKnown, name string) (lastKnown, string, error) {
	var of []lastKnown
	var names, full []string
	for _, k := range all {
		if k.offer == nil && strings.TrimSuffix(name, "/") == k.name() {
			continue // the name of the server alone
		}
		for _, separator := range []string{"/", "__"} {
			if tool, ok := strings.CutPrefix(name, k.name()+separator); ok && (k.mayHave(tool) || k.has(tool)) {
				return k, tool, nil
			}
		}
		if k.has(name) || k.mayHave(name) && len(all) == 1 && !strings.Contains(name, "/") {
			of, full = append(of, k), append(full, k.name()+"/"+name)
		}
		for _, tool := range k.tools() {
			names = append(names, tool, k.name()+"/"+tool)
		}
	}
	switch {
	case len(of) == 1:
		return of[0], name, nil
	case len(of) > 1:
		return lastKnown{}, "", hinted{misused{fmt.Errorf("several servers have a tool %q", name)}, "name one: " + strings.Join(full, ", ")}
	}
	const allTools = "mcpschedd check --connect lists the tools of every server"
	server := strings.TrimSuffix(name, "/")
	if i := slices.IndexFunc(all, func(k lastKnown) bool { return k.name() == server }); i >= 0 {
		hint := allTools
		if known := all[i].tools(); len(known) > 0 {
			hint = "its tools: " + strings.Join(known, ", ")
		}
		return lastKnown{}, "", hinted{usage("want NAME/TOOL, have only the server %s", server), hint}
	}
	return lastKnown{}, "", suggest(fmt.Errorf("no server is known to have a tool %q", name), "", name, names, allTools)
}
