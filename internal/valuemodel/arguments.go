package valuemodel

import (
	"iter"
	"path/filepath"
	"strings"
	"unicode"

	"mcpschedd/internal/classify"
)

// Arguments gives the raw JSON value of a top-level argument, nil if there is
// none. A nil one has none at all.
type Arguments func(name string) []byte

func (a Arguments) raw(name string) []byte {
	if a == nil {
		return nil
	}
	return a(name)
}

// Asks reports whether the arguments of a call decide anything: whether it only
// reads, whose answer may stand in for its own, what it changes, or which host it
// asks.
func (m *Model) Asks() bool { return m.asks }

// ClassOf is what one call does. names are those of all its arguments, for a
// single unknown one may make a call do something else; nil: they cannot be told.
func (m *Model) ClassOf(args Arguments, names iter.Seq[string]) Class {
	if m.Classify == "" {
		return m.Class
	}
	if names != nil && m.Classify.Of(names, args.raw).Level == classify.Reads {
		return ReadOnly
	}
	return Indeterminate
}

// Quiet reports whether a call that is not known to read, and so is not to be run early,
// changes nothing that others read all the same: git status and its like, on condition that
// the git configuration which holds in these folders names no programs. They are seen from
// the folder that the server was started in.
func (m *Model) Quiet(args Arguments, names iter.Seq[string]) (folders []string, ok bool) {
	if m.Classify == "" || names == nil {
		return nil, false
	}
	e := m.Classify.Of(names, args.raw)
	return e.Repositories, e.Level == classify.Quiet
}

// HostOf is the host that a call asks, whose limits count.
func (m *Model) HostOf(args Arguments) string {
	if m.URLArgument == "" {
		return m.Host
	}
	if s, ok := classify.Text(args.raw(m.URLArgument)); ok {
		if host, ok := urlHost(s); ok {
			return host
		}
	}
	return m.Host
}

// File is the path of the one local file that the answer to a call depends on;
// "" if there is none. False if it cannot be told, so that the answer may not be
// kept.
func (m *Model) File(args Arguments) (path string, ok bool) {
	if m.ValidateFile == "" {
		return "", true
	}
	path, ok = classify.Text(args.raw(m.ValidateFile))
	if !ok || !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsFunc(path, unicode.IsControl) {
		return "", false
	}
	return path, true
}
