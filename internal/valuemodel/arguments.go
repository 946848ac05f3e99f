package valuemodel

import (
	"iter"
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

// ClassOf is what one call does. names are those of all its arguments, for a
// single unknown one may make a call do something else; nil: they cannot be told.
func (m *Model) ClassOf(args Arguments, names iter.Seq[string]) Class {
	if m.Classify == "" {
		return m.Class
	}
	if names != nil && m.Classify.reads(args, names) {
		return ReadOnly
	}
	return Indeterminate
}

// reads reports whether a call certainly changes nothing. What to run must stand
// in exactly one argument, and beside it only what is known to change nothing of
// what it means.
func (c Classify) reads(args Arguments, names iter.Seq[string]) bool {
	only, folder := "", false
	for name := range names {
		switch {
		case c.runs(name) && only == "":
			only = name
		case c == Shell && isFolder(strings.ToLower(name)):
			folder = true
		case !c.ignores(strings.ToLower(name)) && !(isSwitch(name) && string(args.raw(name)) == "false"):
			return false
		}
	}
	s, ok := text(args.raw(only))
	switch {
	case !ok:
		return false
	case c == SQL:
		return sqlReads(s)
	}
	// Git obeys the configuration of the folder it is run in, which may be one
	// that came with somebody's files.
	return c == Shell && shellReads(s) && !(folder && strings.Contains(s, "git"))
}

// runs reports whether an argument is what a tool runs. Other spellings are not:
// servers differ on whether they are heard.
func (c Classify) runs(name string) bool {
	switch name {
	case "command", "cmd", "script", "commands", "code", "commandLine", "command_line":
		return c == Shell
	case "sql", "query", "statement", "statements", "queries":
		return c == SQL
	}
	return false
}

// ignores reports whether an argument, in lower case, bounds or describes a call
// and no more. One that is not listed may name what runs before or after, where
// the output goes, or as whom.
func (c Classify) ignores(name string) bool {
	switch name {
	case "timeout", "timeout_ms", "timeoutms", "timeout_seconds", "timeout_s", "description", "explanation":
		return true
	case "limit", "max_rows", "maxrows", "row_limit", "database", "db", "schema", "format":
		return c == SQL
	case "max_output", "max_output_length", "max_output_bytes":
		return c == Shell
	}
	return false
}

// isSwitch reports whether an argument makes another call of one only where it is
// true.
func isSwitch(name string) bool {
	return name == "run_in_background" || name == "background" || name == "analyze"
}

// isFolder reports whether an argument, in lower case, is the folder to run in.
func isFolder(name string) bool {
	switch name {
	case "cwd", "workdir", "working_dir", "workingdir", "working_directory", "workingdirectory":
		return true
	}
	return false
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
