package valuemodel

import (
	"cmp"
	"path"
	"strings"
)

// pattern matches tools: "upstream/tool", a bare name for any upstream, or a glob of either
// form. It is split at the first slash only: the name of a tool may contain slashes, which *
// matches too.
type pattern struct {
	upstream, tool string // globs with slashes replaced by NUL; upstream is "*" for a bare name
	exact          bool   // without wildcards
	bare           bool   // any upstream
	literals       int    // bytes other than wildcards; [lowestSpecificity] for a rule of the tune command
}

func parsePattern(text string) pattern {
	upstream, tool, split := strings.Cut(text, "/")
	if !split {
		upstream, tool = "*", text
	}
	return pattern{
		upstream: upstream,
		tool:     hideSlashes(tool),
		exact:    !strings.ContainsAny(text, `*?[\`),
		bare:     !split,
		literals: len(text) - strings.Count(text, "*") - strings.Count(text, "?"),
	}
}

// valid reports whether the pattern can match anything.
func (p pattern) valid() bool {
	_, err := path.Match(p.upstream, "")
	_, err2 := path.Match(p.tool, "")
	return err == nil && err2 == nil && p.upstream != "" && p.tool != ""
}

func (p pattern) matches(upstream, tool string) bool {
	return glob(p.tool, hideSlashes(tool)) && glob(p.upstream, upstream)
}

func glob(pattern, name string) bool {
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// hideSlashes replaces slashes, which * does not match in path.Match.
func hideSlashes(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// precedence compares patterns in ascending precedence: "*", globs by their literal bytes,
// bare names, full names. Callers keep equal ones in file order.
func precedence(a, b pattern) int {
	return cmp.Or(cmp.Compare(a.exactness(), b.exactness()), cmp.Compare(a.specificity(), b.specificity()))
}

// How exactly a pattern names a tool, in ascending order.
const (
	globPattern = iota
	bareName
	fullName
)

func (p pattern) exactness() int {
	switch {
	case p.exact && !p.bare:
		return fullName
	case p.exact:
		return bareName
	}
	return globPattern
}

// lowestSpecificity ranks rules of the tune command below every glob.
const lowestSpecificity = -2

// specificity is the number of literal bytes; the bare "*" ranks below all other globs.
func (p pattern) specificity() int {
	if p.bare && p.tool == "*" {
		return -1
	}
	return p.literals
}
