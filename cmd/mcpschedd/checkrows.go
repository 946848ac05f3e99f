package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// manyTools is how many tools some clients take at most (VS Code).
const manyTools = 128

// writeRows prints a row for each upstream, in the order of the file, and returns how many of
// those that are enabled can be used.
func writeRows(w io.Writer, c *config.Config, o proxy.Options, found []proxy.Surveyed) (usable, enabled int) {
	tools := 0
	for _, u := range c.Upstreams {
		i := slices.IndexFunc(found, func(f proxy.Surveyed) bool { return f.Upstream == u.Name })
		if i < 0 {
			fmt.Fprintf(w, "– %s: enabled = false\n", u.Name)
			continue
		}
		enabled++
		f := found[i]
		if f.Offer == nil {
			fmt.Fprintf(w, "✗ %s: %s\n", u.Name, outlined(reason(f.Problem)))
			continue
		}
		usable++
		at := slices.IndexFunc(o.Upstreams, func(up proxy.Upstream) bool { return up.Spec.Name == u.Name })
		tools += writeRow(w, o.Models, o.Upstreams[at], f)
	}
	if tools > manyTools {
		fmt.Fprintf(w, "warning: %d tools in all: some clients accept at most %d; [upstreams.NAME] tools = { allow = […] } lists fewer\n", tools, manyTools)
	}
	fmt.Fprintf(w, "%d of %d usable\n", usable, enabled)
	return usable, enabled
}

// writeRow prints what an upstream offers and what is done with it, and returns how many tools
// clients see.
func writeRow(w io.Writer, models *valuemodel.Models, up proxy.Upstream, f proxy.Surveyed) (listed int) {
	var names, warnings []string
	for _, t := range f.Tools {
		if t.Warning != "" {
			warnings = append(warnings, t.Warning)
		}
		if t.Listed != "" {
			names = append(names, shownName(t.Listed))
		}
	}
	fmt.Fprintf(w, "✓ %s %s, %d cacheable, %d prefetchable%s (%d ms)\n",
		f.Upstream, plural(len(names), "tool"), f.Status.Cacheable, f.Status.Prefetchable, others(f.Offer), f.Took.Round(time.Millisecond).Milliseconds())
	u, _ := proxy.WithServerClaims(up.Model, f.Offer, "")
	for _, word := range knownBy(u, models.Resolve(u, "", valuemodel.Hints{})) {
		fmt.Fprintf(w, "  %s\n", word)
	}
	if f.Status.Why != "" {
		fmt.Fprintf(w, "  %s\n", f.Status.Why)
	}
	if f.Status.Change != "" {
		fmt.Fprintf(w, "  to change that: %s\n", f.Status.Change)
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "  tools: %s\n", strings.Join(names, ", "))
	}
	for _, warning := range warnings {
		fmt.Fprintf(w, "  warning: %s\n", warning)
	}
	return len(names)
}

// others says what an upstream has besides tools.
func others(offer *upstream.Offer) (text string) {
	for _, l := range []upstream.List{upstream.Prompts, upstream.Resources, upstream.Templates} {
		if n := len(offer.Lists[l]); n > 0 {
			text += ", " + plural(n, map[upstream.List]string{upstream.Prompts: "prompt", upstream.Resources: "resource", upstream.Templates: "template"}[l])
		}
	}
	return text
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// reason is why an upstream cannot be used: what the configuration lacks, without the key
// under which that stands, else what the upstream's end was.
func reason(problem error) string {
	away, ok := errors.AsType[*upstream.Unavailable](problem)
	if !ok {
		return problem.Error()
	}
	if missing, ok := errors.AsType[*config.Unresolved](away.Cause); ok {
		return missing.Reason
	}
	text := away.Cause.Error()
	if len(away.Stderr) > 0 {
		text += "\n" + strings.Join(away.Stderr, "\n")
	}
	return text
}

// shownName is a name as it stands in a list: in quotes where it might be taken for
// more than one, or for something else that this program says.
func shownName(name string) string {
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
