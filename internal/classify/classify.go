// Package classify decides whether one call of a tool that runs a command line or an SQL
// statement is certain to be read-only.
//
// It works by allow lists. A shell and a database have too many ways to write to list
// them, so the package lists commands with their options, and functions, that only read,
// and rejects everything else:
//
//	classify.Shell.Of(names, value) // {"command": "git log -3 | head"} → Reads
//	classify.SQL.Of(names, value)   // {"sql": "SELECT 1; DROP TABLE t"} → Unknown
//
// All functions but [PlainGit] are pure. A call that is Quiet also requires that the
// configuration of a git repository names no programs; the caller checks that, see
// [Effect].
package classify

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Kind is the kind of code that a tool runs; "" if it is not set.
type Kind string

const (
	Shell Kind = "shell" // a command line
	SQL   Kind = "sql"   // a statement
)

// Level is how harmless a call is known to be.
type Level int

const (
	Unknown Level = iota // may change anything
	Quiet                // changes nothing that others read, but must not be prefetched
	Reads                // changes nothing
)

// Effect is the effect of one call.
type Effect struct {
	Level Level

	// Folders are the directories in which the call runs git, absolute or relative to the
	// tool's working directory. If the git configuration that applies in one of them names a
	// program that git would run, a Quiet call is Unknown instead.
	Folders []string
}

var (
	// codeNames are the arguments with the code. Other spellings do not count, as servers
	// differ on whether they accept them.
	codeNames = map[Kind][]string{
		Shell: {"command", "cmd", "script", "commands", "code", "commandLine", "command_line"},
		SQL:   {"sql", "query", "statement", "statements", "queries"},
	}
	// harmlessNames are arguments, in lower case, that only limit a call, say where it runs, or are
	// the values of placeholders, of any kind or of one. An unlisted one may name a command to run
	// before or after, an output file or a user.
	harmlessNames = map[Kind][]string{
		"":    {"timeout", "timeout_ms", "timeoutms", "timeout_seconds", "timeout_s"},
		Shell: {"max_output", "max_output_length", "max_output_bytes"},
		SQL: {
			"limit", "max_rows", "maxrows", "row_limit", "offset", "page", "page_size", "pagesize", "database", "db", "schema", "format", "project_id",
			"params", "parameters",
		},
	}
	remarkNames = []string{"description", "explanation"}
	switchNames = []string{"run_in_background", "background", "analyze"} // no effect if false
	folderNames = []string{"cwd", "workdir", "working_dir", "workingdir", "working_directory", "workingdirectory"}
)

// plainValue matches a value that cannot contain code, as a server may insert a limit or the
// name of a database into the code: a number, or a word that is no option, and has neither a comment
// nor two slashes, which may name another host; or a list of such values.
var plainValue = sync.OnceValue(func() *regexp.Regexp {
	const one = `(?:null|true|false|-?[0-9.]+|"-?[0-9.]+"|"(?:(?:/-?)?[A-Za-z0-9_.:]-?)*/?")`
	return regexp.MustCompile(`^(?:` + one + `|\[\s*(?:` + one + `\s*,\s*)*` + one + `?\s*\])$`)
})

// IsCode reports whether an argument of that name contains the code.
func (k Kind) IsCode(name string) bool { return slices.Contains(codeNames[k], name) }

// Of classifies a call. Exactly one argument must contain the code, and all others must
// be known not to change its meaning. names are the names of all arguments; value
// returns the raw JSON of one.
func (k Kind) Of(names iter.Seq[string], value func(name string) []byte) Effect {
	code, folder := "", ""
	for name := range names {
		lower := strings.ToLower(name)
		switch {
		case k.IsCode(name) && code == "":
			code = name
		case k == Shell && slices.Contains(folderNames, lower) && folder == "":
			folder = name
		case slices.Contains(remarkNames, lower), slices.Contains(switchNames, name) && string(value(name)) == "false":
		case (slices.Contains(harmlessNames[""], lower) || slices.Contains(harmlessNames[k], lower)) && plainValue().Match(value(name)):
		default:
			return Effect{}
		}
	}
	if code == "" {
		return Effect{}
	}
	text, ok := Text(value(code))
	switch {
	case ok && k == SQL && selects(text):
		return Effect{Level: Reads}
	case ok && k == Shell && folder == "":
		return ShellLine(text)
	case ok && k == Shell:
		return inFolder(ShellLine(text), value(folder))
	}
	return Effect{}
}

// inFolder adjusts the effect of a command line to the directory that the call names: its
// files may be devices, and git obeys the configuration of the repository there, which may
// be by another author. A server may put its text before the command line: cd FOLDER && LINE.
func inFolder(e Effect, folder []byte) Effect {
	path, ok := Text(folder)
	switch {
	case !ok && string(folder) != "null", !wordForms().folder.MatchString(path), wordForms().device.MatchString(strings.TrimRight(path, "/") + "/"):
		return Effect{}
	case len(e.Folders) == 0:
		return e
	case !ok || strings.HasPrefix(path, "~"):
		return Effect{}
	}
	for i, f := range e.Folders {
		e.Folders[i] = resolve(path, f)
	}
	e.Level = Quiet
	return e
}

// Text decodes a raw JSON string. It returns false for any other JSON value, and for a
// string that is not valid UTF-8, which the server may decode differently.
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
