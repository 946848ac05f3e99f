package classify

import (
	"path/filepath"
	"slices"
	"strings"
)

// git classifies a git command and returns the directory that it runs in, relative to the
// working directory.
//
// Git obeys the configuration of the repository: core.fsmonitor runs a program whenever the
// index is read, textconv and diff.external when patches are shown, and gpg verifies
// signatures. So a command is Reads only if it reads nothing but commits, without patches,
// in the directory that the server's user chose. Other commands with listed options are
// Quiet, provided that the repository's configuration names no such program. git status,
// git diff of the work tree and similar commands rewrite the index with refreshed file times
// and hold its lock meanwhile. Only a reader of the file .git/index itself could notice that.
func git(words []word, fed bool) (effect Level, folder string) {
	effect = Reads
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		switch words[0].text {
		case "--no-pager", "--no-optional-locks":
		case "--version":
			if len(words) > 1 {
				return Unknown, ""
			}
			return effect, folder
		case "-C":
			if len(words) < 2 || !words[1].operand() || words[1].glob || words[1].text[0] == '~' {
				return Unknown, ""
			}
			// The directory may contain a repository from someone else, with its own
			// configuration.
			words, effect = words[1:], Quiet
			folder = resolve(folder, words[0].text)
		default:
			return Unknown, ""
		}
		words = words[1:]
	}
	if len(words) == 0 || slices.ContainsFunc(words, func(w word) bool { return verifiesSignature(w.text) }) {
		return Unknown, ""
	}
	if slices.ContainsFunc(words, func(w word) bool { return namesIndex(w.text) }) {
		effect = Quiet
	}
	return min(effect, gitCommand(words[0].text, words[1:], fed)), folder
}

// resolve returns path relative to folder, or path itself if it is absolute.
func resolve(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// gitCommand classifies a git subcommand.
func gitCommand(name string, words []word, fed bool) Level {
	switch {
	case name == "reflog" && len(words) == 0,
		(name == "stash" || name == "worktree") && len(words) == 1 && words[0].text == "list",
		name == "remote" && len(words) == 0,
		name == "remote" && len(words) == 1 && words[0].text == "-v",
		name == "remote" && len(words) == 2 && words[0].text == "get-url" && words[1].operand() && !words[1].glob:
		return Reads
	case name == "reflog" && words[0].text == "show":
		name, words = "log", words[1:]
	}
	c, known := gitCommands()[name]
	a, ok := c.parse(words)
	if !known || !ok || !c.allows(a, fed) || len(c.Creates) > 0 && len(a.operands) > 0 && !a.has(c.Creates...) {
		return Unknown
	}
	if name == "config" && !(a.has("get", "get-all") && len(a.operands) == 1 || a.has("l", "list") && len(a.operands) == 0) {
		return Unknown // with two operands it sets a value
	}
	if c.Early == "always" || c.Early == "no patches" && !a.has("p", "u", "U", "S", "G", "L", "m", "c", "patch", "unified", "word-diff") {
		return Reads
	}
	return Quiet
}

// namesIndex reports whether a word names an entry of the index, such as :a.txt or :2:a.txt,
// alone or in a range, or attributes that may be read from the index.
func namesIndex(text string) bool {
	return strings.HasPrefix(text, ":") ||
		slices.ContainsFunc([]string{"..:", "^:", "=:"}, func(form string) bool { return strings.Contains(text, form) })
}

// verifiesSignature reports whether a format verifies signatures, for which gpg writes files.
func verifiesSignature(format string) bool {
	return strings.Contains(format, "%(") && strings.Contains(format, "signature") ||
		slices.ContainsFunc([]string{"%G", "%+G", "%-G", "% G"}, func(verb string) bool { return strings.Contains(format, verb) })
}
