// Package classify says what a single call of a tool does that runs a command line or an
// SQL statement: whether it certainly only reads.
//
// The one idea: whatever is not known to read is not let through. A shell and a database
// have many ways to write, so there is no list of those; there are lists of commands with
// their options, and of functions, that read:
//
//	classify.Shell.Of(names, value) // {"command": "git log -3 | head"} → Reads
//	classify.SQL.Of(names, value)   // {"sql": "SELECT 1; DROP TABLE t"} → Unknown
//
// Everything here is a pure function of its arguments. What a call that is quiet asks for
// besides, that the configuration of a git repository names no programs, its caller finds
// out: see [Effect].
package classify

import (
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf8"
)

// Kind is what a tool runs. "" is not set.
type Kind string

const (
	Shell Kind = "shell" // a command line
	SQL   Kind = "sql"   // a statement
)

// Level is what is known of a call.
type Level int

const (
	Unknown Level = iota // it may change anything
	Quiet                // it changes nothing that others read, but is not to be run early
	Reads                // it changes nothing
)

// Effect is what one call does.
type Effect struct {
	Level Level

	// Repositories are the folders, seen from the one that the tool runs in unless they are
	// absolute, where git is run; of a quiet call. It is quiet if the git configuration that
	// holds there names no programs that git would run, and is not known otherwise.
	Repositories []string
}

// Of says what a call does. What to run must stand in exactly one argument, and beside it
// only what is known to change nothing of what it means. names are those of all arguments,
// value gives the raw JSON of one.
func (k Kind) Of(names iter.Seq[string], value func(name string) []byte) Effect {
	only, folder := "", ""
	for name := range names {
		lower := strings.ToLower(name)
		switch {
		case k.runs(name) && only == "":
			only = name
		case k == Shell && isFolder(lower) && folder == "":
			folder = name
		case !k.ignores(lower) && !(isSwitch(name) && string(value(name)) == "false"):
			return Effect{}
		}
	}
	if only == "" {
		return Effect{}
	}
	text, ok := Text(value(only))
	switch {
	case !ok:
		return Effect{}
	case k == SQL && Statement(text):
		return Effect{Level: Reads}
	case k == Shell && folder == "":
		return ShellLine(text)
	case k == Shell:
		return inFolder(ShellLine(text), value(folder), text)
	}
	return Effect{}
}

// inFolder is what a command line does in a folder that the call names. Git obeys the
// configuration of the repository there, which may have come with files of others.
func inFolder(e Effect, folder []byte, line string) Effect {
	if e.Level == Unknown || !strings.Contains(line, "git") {
		return e
	}
	path, ok := Text(folder)
	if !ok || strings.HasPrefix(path, "~") {
		return Effect{}
	}
	repositories := []string{path}
	for _, r := range e.Repositories {
		if r = within(path, r); r != path {
			repositories = append(repositories, r)
		}
	}
	return Effect{Level: Quiet, Repositories: repositories}
}

// runs reports whether an argument is what a tool runs. Other spellings are not:
// servers differ on whether they are heard.
func (k Kind) runs(name string) bool {
	switch name {
	case "command", "cmd", "script", "commands", "code", "commandLine", "command_line":
		return k == Shell
	case "sql", "query", "statement", "statements", "queries":
		return k == SQL
	}
	return false
}

// ignores reports whether an argument, in lower case, bounds or describes a call
// and no more. One that is not listed may name what runs before or after, where
// the output goes, or as which user.
func (k Kind) ignores(name string) bool {
	switch name {
	case "timeout", "timeout_ms", "timeoutms", "timeout_seconds", "timeout_s", "description", "explanation":
		return true
	case "limit", "max_rows", "maxrows", "row_limit", "database", "db", "schema", "format", "project_id":
		return k == SQL
	case "max_output", "max_output_length", "max_output_bytes":
		return k == Shell
	}
	return false
}

// isSwitch reports whether an argument makes another call of one only where it is true.
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

// Text is the string that raw JSON holds; false if it holds none, or one that
// cannot be written in UTF-8, so that the server may read another.
func Text(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
		return "", false
	}
	return s, true
}
