package valuemodel

import "strings"

// Options of git that several commands share.
const (
	gitDiffLong = " patch no-patch stat? shortstat numstat name-only name-status summary raw word-diff? unified= diff-filter= find-renames? find-copies? no-renames color? no-color ignore-all-space ignore-space-change ignore-blank-lines minimal patience histogram full-index text no-ext-diff no-textconv "
	gitLogLong  = gitDiffLong + " oneline graph all decorate? no-decorate pretty? format= author= committer= grep= since= until= after= before= follow merges no-merges first-parent reverse abbrev-commit abbrev? no-abbrev-commit date= max-count= skip= branches? tags? remotes? topo-order date-order left-right all-match invert-grep relative-date show-pulls full-history simplify-merges cherry-pick "
	gitListLong = " list all remotes verbose show-current contains= no-contains= merged= no-merged= points-at= format= sort= column? no-column color? no-color ignore-case "
)

// readsGit knows the commands of git that look at what is there. Whatever would
// list, without an operand, and create with one needs --list.
//
// Whatever reads the index runs the program that core.fsmonitor names, and git
// status, a git diff of the work tree and git describe --dirty rewrite it, and hold
// its lock meanwhile, so that a git commit at the same time fails: only what looks
// at commits is let through. What shows patches runs the programs of
// diff.*.textconv and diff.external, and must say that it does without. Nor is -C
// let through: a folder of somebody's files may hold a repository with a
// configuration of its own.
func readsGit(words []shellWord, fed bool) bool {
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		switch words[0].text {
		case "--no-pager", "--no-optional-locks":
		case "--version":
			return len(words) == 1
		default:
			return false
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	for _, w := range words {
		// Signatures are verified by gpg, which keeps files of its own.
		if asksGPG(w.text) || asksIndex(w.text) {
			return false
		}
	}
	cmd, ok := gitCommandNamed(words[0].text)
	return ok && cmd.reads(words[1:], fed)
}

// asksIndex reports whether a word names what is in the index, :a.txt or :2:a.txt,
// by itself or in a range, or by attributes that may be read from there.
func asksIndex(word string) bool {
	if strings.HasPrefix(word, ":") {
		return true
	}
	for _, form := range []string{"..:", "^:", "=:"} {
		if strings.Contains(word, form) {
			return true
		}
	}
	return false
}

func asksGPG(format string) bool {
	for _, verb := range []string{"%G", "%+G", "%-G", "% G"} {
		if strings.Contains(format, verb) {
			return true
		}
	}
	return strings.Contains(format, "%(") && strings.Contains(format, "signature")
}

func gitCommandNamed(name string) (c shellCommand, ok bool) {
	log := shellCommand{operands: anyNumber, flags: "0123456789pqzuswbEFPimcMC", valued: "nSGLU", long: gitLogLong, also: func(a shellArgs) bool {
		return plainPatches(a) || !a.has("p", "u", "U", "S", "G", "L", "m", "c", "patch", "unified", "word-diff")
	}}
	switch name {
	case "log", "rev-list", "whatchanged":
		return log, true
	case "show":
		log.also = plainPatches
		return log, true
	case "diff":
		return shellCommand{operands: anyNumber, flags: "0123456789puswbzMCR", valued: "USG", long: gitDiffLong + "merge-base exit-code quiet", also: gitDiffOfCommits}, true
	case "reflog":
		return shellCommand{own: func(words []shellWord, fed bool) bool {
			return len(words) == 0 || words[0].text == "show" && log.reads(words[1:], fed)
		}}, true
	case "stash", "worktree":
		return shellCommand{own: func(words []shellWord, _ bool) bool {
			return len(words) == 1 && words[0].text == "list"
		}}, true
	case "shortlog":
		return shellCommand{operands: anyNumber, flags: "sne", long: "summary numbered email since= until= author= no-merges", also: func(a shellArgs) bool {
			// With paths alone it reads a log from the standard input.
			return a.fed || a.before > 0 && a.operands[0].text == "HEAD"
		}}, true
	case "rev-parse":
		return shellCommand{operands: anyNumber, flags: "q", long: "show-toplevel show-prefix show-cdup git-dir git-common-dir absolute-git-dir is-inside-work-tree is-bare-repository abbrev-ref? short? verify symbolic symbolic-full-name all branches? tags? remotes? quiet"}, true
	case "ls-tree":
		return shellCommand{operands: anyNumber, flags: "drtlz", long: "name-only name-status long full-name full-tree"}, true
	case "cat-file":
		return shellCommand{operands: 2, files: 1, flags: "tspe"}, true
	case "blame":
		return shellCommand{operands: anyNumber, flags: "lswetcfnpMC", valued: "L", long: "porcelain line-porcelain date= show-email show-name show-number root no-ext-diff no-textconv", also: func(a shellArgs) bool {
			// Without a commit to begin with it looks at the file as it is, through the
			// filters that are set up.
			if !plainPatches(a) || a.before != 1 || len(a.operands) != 2 {
				return false
			}
			commit := a.operands[0].text
			return commit[0] != '^' && !strings.Contains(commit, "..")
		}}, true
	case "branch":
		return shellCommand{operands: anyNumber, flags: "arv", long: gitListLong, also: gitLists}, true
	case "tag":
		return shellCommand{operands: anyNumber, flags: "ln0123456789", long: gitListLong, also: func(a shellArgs) bool {
			return gitLists(a) || a.has("l")
		}}, true
	case "remote":
		return shellCommand{own: func(words []shellWord, _ bool) bool {
			switch len(words) {
			case 0:
				return true
			case 1:
				return words[0].text == "-v"
			}
			return len(words) == 2 && words[0].text == "get-url" && words[1].operand() && !words[1].glob
		}}, true
	case "describe":
		return shellCommand{operands: anyNumber, long: "tags all always long abbrev= match= exclude= exact-match contains first-parent"}, true
	case "config":
		return shellCommand{operands: 1, flags: "lz", long: "get get-all list global local system show-origin show-scope name-only null", also: func(a shellArgs) bool {
			return a.has("get", "get-all") && len(a.operands) == 1 || a.has("l", "list") && len(a.operands) == 0
		}}, true
	case "for-each-ref":
		return shellCommand{operands: anyNumber, long: "format= sort= count= contains? merged? points-at="}, true
	case "merge-base":
		return shellCommand{operands: anyNumber, flags: "a", long: "all is-ancestor octopus independent fork-point"}, true
	case "show-ref":
		return shellCommand{operands: anyNumber, flags: "dsq", long: "head heads tags verify hash? abbrev?"}, true
	case "version":
		return shellCommand{}, true
	}
	return shellCommand{}, false
}

// gitLists reports whether git branch and git tag list: an operand alone is the
// name of a new one.
func gitLists(a shellArgs) bool { return len(a.operands) == 0 || a.has("list") }

// plainPatches reports whether patches are made by git alone.
func plainPatches(a shellArgs) bool { return a.has("no-textconv") && a.has("no-ext-diff") }

func gitDiffOfCommits(a shellArgs) bool {
	if !plainPatches(a) {
		return false
	}
	for _, w := range a.operands[:a.before] {
		from, to, ok := strings.Cut(w.text, "..")
		if ok && from != "" && !strings.HasSuffix(from, "/") && to != "" && to[0] != '/' {
			return !w.glob
		}
	}
	return false
}
