package classify

import (
	"path/filepath"
	"slices"
	"strings"
)

// git says what a call of git does, and in which folder, seen from the one that it is run in.
//
// Git obeys the configuration of the repository it looks at: core.fsmonitor runs a program
// for whatever reads the index, textconv and diff.external for what shows patches, gpg
// verifies signatures. So a call reads only if it looks at commits alone, without patches, in
// the folder that the server's user chose. Of other calls with listed options it is said that
// they are quiet, on condition that the repository's configuration names no such program. git
// status, a git diff of the work tree and their like rewrite the index with what they found of
// each file's times, and hold its lock meanwhile: that shows to what reads the file .git/index
// itself, not to git or to readers of any other file.
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
			// The folder may hold a repository that came with files of others, and has
			// a configuration of its own.
			words, effect = words[1:], Quiet
			folder = within(folder, words[0].text)
		default:
			return Unknown, ""
		}
		words = words[1:]
	}
	if len(words) == 0 || slices.ContainsFunc(words, func(w word) bool { return asksGPG(w.text) }) {
		return Unknown, ""
	}
	if slices.ContainsFunc(words, func(w word) bool { return asksIndex(w.text) }) {
		effect = Quiet
	}
	return min(effect, gitCommand(words[0].text, words[1:], fed)), folder
}

// within is a path as seen from folder.
func within(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// gitCommand says what a command of git does.
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
	a, ok := c.sort(words)
	if !known || !ok || !c.allows(a, fed) || len(c.Creates) > 0 && len(a.operands) > 0 && !a.has(c.Creates...) {
		return Unknown
	}
	if name == "config" && !(a.has("get", "get-all") && len(a.operands) == 1 || a.has("l", "list") && len(a.operands) == 0) {
		return Unknown // with another operand it sets one
	}
	if c.Early == "always" || c.Early == "no patches" && !a.has("p", "u", "U", "S", "G", "L", "m", "c", "patch", "unified", "word-diff") {
		return Reads
	}
	return Quiet
}

// asksIndex reports whether a word names what is in the index, :a.txt or :2:a.txt,
// by itself or in a range, or by attributes that may be read from there.
func asksIndex(text string) bool {
	return strings.HasPrefix(text, ":") ||
		slices.ContainsFunc([]string{"..:", "^:", "=:"}, func(form string) bool { return strings.Contains(text, form) })
}

// asksGPG reports whether a format verifies signatures: gpg keeps files of its own.
func asksGPG(format string) bool {
	return strings.Contains(format, "%(") && strings.Contains(format, "signature") ||
		slices.ContainsFunc([]string{"%G", "%+G", "%-G", "% G"}, func(verb string) bool { return strings.Contains(format, verb) })
}
