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

// manyTools is the limit of some clients (VS Code).
const manyTools = 128

// writeRows prints a row for each upstream, in the order of the file, and returns the numbers of
// usable and enabled upstreams.
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
			fmt.Fprintf(w, "✗ %s: %s\n", u.Name, sanitized(reason(f.Problem)))
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

// writeRow prints what an upstream offers and how its tools are treated, and returns the number
// of tools that clients see.
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
		f.Upstream, plural(len(names), "tool"), f.Status.Cacheable, f.Status.Prefetchable, otherLists(f.Offer), f.Took.Round(time.Millisecond).Milliseconds())
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

// otherLists counts an upstream's prompts, resources and resource templates.
func otherLists(offer *upstream.Offer) (text string) {
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

// reason returns why an upstream cannot be used: the missing variable without its key, or else
// the cause and the last lines on stderr.
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

// shownName returns a name for a list, quoted if it could be mistaken for several names or for
// the program's own text.
func shownName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r == ',' || r == ' ' || !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// sanitized returns a text from elsewhere with unprintable characters replaced and every line but
// the first prefixed with a bar.
func sanitized(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	return strings.ReplaceAll(text, "\n", "\n  | ")
}
