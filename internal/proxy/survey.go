package proxy

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

const (
	// longName is how long a tool's name may be, as clients send it to their
	// model behind "mcp__mcpschedd__", before some drop the tool: 64 is the
	// least limit of the model APIs in use, Claude Code's own is 128.
	longName     = 64
	clientPrefix = "mcp__mcpschedd__"
	// manyTools is how many tools some clients take at most (VS Code).
	manyTools = 128
)

// Surveyed is what a survey found.
type Surveyed struct {
	Failed []string       // upstreams that could not be asked
	Tools  []SurveyedTool // of the others, in their order
}

// SurveyedTool is one tool, and what its server says of it.
type SurveyedTool struct {
	Model  *valuemodel.Model
	Hints  valuemodel.Hints
	Hidden bool // the operator leaves it out
}

// Unclassified reports whether no layer says what a call of the tool does, so that
// it counts as a write.
func (t SurveyedTool) Unclassified() bool {
	m := t.Model
	return m.Class == valuemodel.Indeterminate && m.Sources["side_effect_class"] == "default" && m.Classify == ""
}

// Survey starts every upstream and writes what each offers and what clients may
// not take.
func (s *Server) Survey(ctx context.Context, w io.Writer) Surveyed {
	n := s.newSession(front.Client{})
	defer n.End(front.ErrEnded)
	n.open(upstream.Client{})
	var found Surveyed
	tools := 0
	for _, l := range n.leases.current() {
		began := time.Now()
		l.AwaitOffer(ctx)
		offer, problem := l.Offer(), l.Problem()
		if offer == nil {
			found.Failed = append(found.Failed, l.Name())
			if problem == nil {
				problem = fmt.Errorf("upstream %q: no answer: %w", l.Name(), context.Cause(ctx))
			}
			fmt.Fprintf(w, "%s: FAILED: %v\n", l.Name(), outlined(problem.Error()))
			continue
		}
		fmt.Fprintf(w, "%s: ok: revision %s, %d tools, %d prompts, %d resources, %d templates (%d ms)\n", l.Name(), offer.Version,
			len(offer.Lists[upstream.Tools]), len(offer.Lists[upstream.Prompts]), len(offer.Lists[upstream.Resources]), len(offer.Lists[upstream.Templates]),
			time.Since(began).Milliseconds())
		tools += s.surveyTools(w, n, l, offer)
		for _, item := range offer.Lists[upstream.Tools] {
			found.Tools = append(found.Tools, SurveyedTool{s.catalog.model(s.policy.Load(), l, item.Name), hints(item.Raw), !l.member.allows(item.Name)})
		}
	}
	if tools > manyTools {
		fmt.Fprintf(w, "warning: %d tools in all: some clients take at most %d; [upstreams.NAME] tools = { allow = […] } leaves some out\n", tools, manyTools)
	}
	return found
}

// Known is the value model of a tool as the proxy would make it now of what the
// server said last; of a server never connected, offer is nil.
func Known(layers *valuemodel.Models, u valuemodel.Upstream, offer *upstream.Offer, tool string) *valuemodel.Model {
	var claimed valuemodel.Hints
	if offer != nil {
		u.Server, _ = jsonrpc.String(jsonrpc.Get(offer.Server, "name"))
		item, _ := offer.Find(upstream.Tools, tool)
		claimed = hints(item.Raw)
	}
	return layers.Resolve(u, tool, claimed)
}

// surveyTools writes the names under which l's tools are listed.
func (s *Server) surveyTools(w io.Writer, n *session, l *leased, offer *upstream.Offer) int {
	p := s.policy.Load()
	var names []string
	for _, item := range offer.Lists[upstream.Tools] {
		if !l.member.allows(item.Name) {
			continue
		}
		name := n.identity.view.nameOf(p, upstream.Tools, target{l.Name(), item.Name})
		switch {
		case name == "" && slices.Contains(n.identity.view.filled(), l.Name()):
			fmt.Fprintf(w, "  warning: tool %q is left out: the names before it take all the room that there is for those of an upstream\n", item.Name)
			continue
		case name == "":
			fmt.Fprintf(w, "  warning: tool %q is left out: another upstream has the name, and name_style is \"never\"\n", item.Name)
			continue
		case len(clientPrefix)+len(name) > longName:
			fmt.Fprintf(w, "  warning: tool %q: %d characters with a client's prefix %q, more than the %d that some clients take\n", name, len(clientPrefix)+len(name), clientPrefix, longName)
		}
		names = append(names, shown(name))
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "  tools: %s\n", strings.Join(names, ", "))
	}
	return len(names)
}

// shown is a name as it stands in a list: in quotes where it might be taken for
// more than one, or for something else that this program says.
func shown(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r == ',' || r == ' ' || !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// outlined is a foreign text: every line but the first behind a bar, and
// nothing in it that does not print.
func outlined(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	return strings.ReplaceAll(text, "\n", "\n  | ")
}
