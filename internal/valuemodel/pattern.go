package valuemodel

import (
	"cmp"
	"path"
	"strings"
)

// pattern is the name of tools: "upstream/tool", a bare name of any upstream, or
// a glob of either form. Only its first slash divides it: a tool's own name may
// hold slashes, and * stands for them too.
type pattern struct {
	upstream, tool string // globs with their slashes as NUL; upstream "*" for a bare name
	exact          bool   // no wildcard in it
	bare           bool   // of any upstream
	literals       int    // bytes that are no wildcards; of a rule that was measured [beforeAll]
}

func parsePattern(text string) pattern {
	upstream, tool, split := strings.Cut(text, "/")
	if !split {
		upstream, tool = "*", text
	}
	return pattern{
		upstream: upstream,
		tool:     unslashed(tool),
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
	return glob(p.tool, unslashed(tool)) && glob(p.upstream, upstream)
}

func glob(pattern, name string) bool {
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// unslashed hides slashes from path.Match, which would stop * at them.
func unslashed(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// precedence orders patterns, the one that gives way first: "*", globs by what
// they spell out, bare names, full names. Equal ones stay in the file's order.
func precedence(a, b pattern) int {
	return cmp.Or(cmp.Compare(a.exactness(), b.exactness()), cmp.Compare(a.spelt(), b.spelt()))
}

// How exactly a pattern names a tool.
const (
	aGlob = iota
	aBareName
	aFullName
)

func (p pattern) exactness() int {
	switch {
	case p.exact && !p.bare:
		return aFullName
	case p.exact:
		return aBareName
	}
	return aGlob
}

// beforeAll has what was measured give way to every glob.
const beforeAll = -2

// spelt counts what a glob spells out; the bare "*" is less than any.
func (p pattern) spelt() int {
	if p.bare && p.tool == "*" {
		return -1
	}
	return p.literals
}
