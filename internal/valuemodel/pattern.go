package valuemodel

import (
	"path"
	"strings"
)

// pattern matches tools: "NAME/TOOL", a bare name for any upstream, or a glob of
// either form. It is split at the first slash only: the name of a tool may contain
// slashes, which * matches too.
type pattern struct {
	upstream, tool string // globs; upstream is "*" for a bare name
	form           form
	literals       int // bytes other than wildcards; fewer for the bare "*"
}

// form is how exactly a pattern names a tool, in ascending order of precedence.
type form int

const (
	tunedRule form = iota // whatever the pattern of a rule of the tune command
	globPattern
	bareName
	fullName
)

// IsGlob reports whether a name is a glob, in the syntax of [path.Match], and not the name of one thing.
func IsGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }

func parsePattern(text string) pattern {
	p := pattern{form: fullName, literals: len(text) - strings.Count(text, "*") - strings.Count(text, "?")}
	upstream, tool, split := strings.Cut(text, "/")
	if !split {
		upstream, tool, p.form = "*", text, bareName
	}
	p.upstream, p.tool = upstream, tool
	if IsGlob(text) {
		p.form = globPattern
	}
	if text == "*" {
		p.literals = -1
	}
	return p
}

// valid reports whether the pattern can match anything.
func (p pattern) valid() bool {
	_, err := path.Match(p.upstream, "")
	_, err2 := path.Match(p.tool, "")
	return err == nil && err2 == nil && p.upstream != "" && p.tool != ""
}

func (p pattern) matches(upstream, tool string) bool {
	return Glob(p.tool, tool) && Glob(p.upstream, upstream)
}

// Glob reports whether a pattern of [path.Match] matches a name. Unlike there, * and ? match slashes too:
// one in the name of a tool must not get it past a pattern that denies it.
func Glob(pattern, name string) bool {
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}
