package valuemodel

import (
	"iter"
	"path/filepath"
	"strings"
	"unicode"

	"mcpschedd/internal/classify"
)

// Arguments returns the raw JSON value of a top-level argument, or nil if it is absent.
type Arguments func(name string) []byte

// UsesArguments reports whether the arguments of a call matter: for its class, its cache
// key, the places that it changes or its host.
func (m *Model) UsesArguments() bool {
	return m.MayRead() || m.URLArgument != "" || len(m.matchedWrites) > 0
}

// ClassOf returns the class of one call. names are the names of all its arguments, as a
// single unknown argument may change the class; nil if they are not known.
func (m *Model) ClassOf(args Arguments, names iter.Seq[string]) Class {
	if m.Classify == "" {
		return m.Class
	}
	if names != nil && m.Classify.Of(names, args).Level == classify.Reads {
		return ReadOnly
	}
	return Indeterminate
}

// Quiet reports whether a call that must not be prefetched still changes nothing that
// others read, such as git status. It holds only if the git configuration of the
// returned folders names no programs. Relative folders are relative to the server's
// initial directory.
func (m *Model) Quiet(args Arguments, names iter.Seq[string]) (folders []string, ok bool) {
	if m.Classify == "" || names == nil {
		return nil, false
	}
	e := m.Classify.Of(names, args)
	return e.Folders, e.Level == classify.Quiet
}

// HostOf returns the host of the rate limits that apply to a call.
func (m *Model) HostOf(args Arguments) string {
	if m.URLArgument == "" {
		return m.Host
	}
	if s, ok := classify.Text(args(m.URLArgument)); ok {
		if host, ok := urlHost(s); ok {
			return host
		}
	}
	return m.Host
}

// File returns the path of the one local file on which the result of a call depends, or
// "" if there is none. It returns false if the path cannot be determined; the result
// must not be cached then.
func (m *Model) File(args Arguments) (path string, ok bool) {
	if m.Validate.File == "" {
		return "", true
	}
	path, ok = classify.Text(args(m.Validate.File))
	if !ok || !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsFunc(path, unicode.IsControl) {
		return "", false
	}
	return path, true
}
