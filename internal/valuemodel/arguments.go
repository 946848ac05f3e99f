package valuemodel

import (
	"path/filepath"
	"strings"
	"unicode"
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

// ClassOf is what one call does.
func (m *Model) ClassOf(args Arguments) Class {
	if m.Classify == "" || m.Class.rank() > Indeterminate.rank() {
		return m.Class
	}
	if m.Classify.reads(args) {
		return ReadOnly
	}
	return Indeterminate
}

// reads reports whether a call certainly changes nothing. What to run must stand
// in exactly one argument, and nothing beside it may make it mean another thing.
func (c Classify) reads(args Arguments) bool {
	var places, beside []string
	var parse func(string) bool
	switch c {
	case Shell:
		parse = shellReads
		places = []string{"command", "cmd", "script", "commands", "code", "commandLine", "command_line"}
		beside = []string{
			"env", "environment", "shell", "interpreter", "executable", "args", "argv", "arguments",
			"stdin", "input", "run_in_background", "background", "restart",
		}
	case SQL:
		parse = sqlReads
		places = []string{"sql", "query", "statement", "statements", "queries"}
		beside = []string{"analyze"}
	default:
		return false
	}
	for _, name := range beside {
		if raw := args.raw(name); raw != nil && string(raw) != "false" && string(raw) != "null" {
			return false
		}
	}
	var only []byte
	for _, name := range places {
		if raw := args.raw(name); raw != nil {
			if only != nil {
				return false
			}
			only = raw
		}
	}
	s, ok := text(only)
	return ok && parse(s)
}

// HostOf is the host that a call asks, whose limits count.
func (m *Model) HostOf(args Arguments) string {
	if m.URLArgument == "" {
		return m.Host
	}
	if s, ok := text(args.raw(m.URLArgument)); ok {
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
	path, ok = text(args.raw(m.ValidateFile))
	if !ok || !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsFunc(path, unicode.IsControl) {
		return "", false
	}
	return path, true
}
