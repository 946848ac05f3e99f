package classify

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// gitForms are the forms of words of a git command.
var gitForms = sync.OnceValue(func() (f struct{ index, signature *regexp.Regexp }) {
	// An entry of the index, such as :a.txt or :2:a.txt, alone or in a range, or
	// attributes that may be read from the index.
	f.index = regexp.MustCompile(`(?:^|\.\.|\^|=):`)
	// A format or an order that verifies signatures, for which gpg writes files.
	f.signature = regexp.MustCompile(`%\(.*signature|%[-+ ]?G|(?:^|=)-?(?:v(?:ersion)?:)?\*?signature(?::|$)`)
	return f
})

// git classifies a git command and returns the directory that it runs in, relative to the
// working directory.
//
// Git obeys the configuration of the repository: core.fsmonitor runs a program whenever
// the index is read, textconv and diff.external when patches are shown, and gpg verifies
// signatures. So a command is Reads only if it reads neither the index nor the work tree and
// shows no patches, in the directory that the server's user chose. Other commands with listed
// options are Quiet, provided that the repository's configuration names no such program. In a
// partial clone some, such as git log --stat, are Reads too, although git may have to fetch what
// they show.
// git status, git diff of the work tree and similar commands rewrite the index with
// refreshed file times and hold its lock meanwhile. Only a reader of the file .git/index
// itself could notice that.
func git(words []word, fed bool) (level Level, folder string) {
	words, folder, ok := gitOptions(words)
	verifies := func(w word) bool { return gitForms().signature.MatchString(w.text) }
	ofIndex := func(w word) bool { return gitForms().index.MatchString(w.text) }
	if !ok || slices.ContainsFunc(words, verifies) {
		return Unknown, ""
	}
	entries, rest := lookup(append([]word{{text: "git"}}, words...))
	// The repository in another folder may be by another author, with its own configuration.
	mayBeEarly := folder == "" && !slices.ContainsFunc(words, ofIndex)
	for _, c := range entries {
		switch {
		case !c.reads(rest, fed):
		case c.Early && mayBeEarly:
			return Reads, ""
		default:
			level = Quiet
		}
	}
	return level, folder
}

// gitOptions returns the words after git's own options, and the folder that these name.
func gitOptions(words []word) (rest []word, folder string, ok bool) {
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		switch words[0].text {
		case "--no-pager", "--no-optional-locks":
		case "-C":
			if len(words) < 2 || !words[1].operand() || words[1].glob || words[1].text[0] == '~' {
				return nil, "", false
			}
			words = words[1:]
			folder = resolve(folder, words[0].text)
		default:
			return nil, "", false
		}
		words = words[1:]
	}
	return words, folder, true
}

// resolve returns path relative to folder, or path itself if it is absolute. It keeps "..",
// since the folder before it may be a symbolic link.
func resolve(folder, path string) string {
	switch {
	case path == "":
		return folder
	case folder == "", filepath.IsAbs(path):
		return path
	}
	return folder + string(filepath.Separator) + path
}

// Process describes how a server was started. It determines which configuration git reads
// when the server runs it.
type Process struct {
	Path string
	Args []string // without the name of the program
	Dir  string
	Env  []string // complete
}

// PlainGit reports whether git, run by the server in these directories, runs no
// configured program for fsmonitor, textconv, diffs, filters, hooks or signatures.
// Relative directories are relative to the server's initial working directory. If its
// shell has changed directory since, PlainGit trusts the configuration there as the
// user's own.
//
// PlainGit searches the effective configuration files for such settings. It returns
// false if they do not suffice: with included files, linked work trees, submodules, or a
// server on another machine. Attributes only choose among programs that the
// configuration names. It blocks on file system reads.
func PlainGit(server Process, folders []string) bool {
	words := strings.Join(append([]string{server.Path}, server.Args...), " ")
	if server.Path == "" || runtime.GOOS == "windows" || configForms().otherMachine.MatchString(words) {
		return false
	}
	env := make(map[string]string)
	for _, variable := range server.Env {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
		if strings.HasPrefix(name, "GIT_") {
			return false
		}
	}
	files := []string{
		"/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig", // of the system, as git is built
		filepath.Join(cmp.Or(env["XDG_CONFIG_HOME"], filepath.Join(env["HOME"], ".config")), "git", "config"),
		filepath.Join(env["HOME"], ".gitconfig"),
	}
	for _, folder := range folders {
		repository, ok := repositoryOf(resolve(server.Dir, folder))
		others := []string{"commondir", "hooks/post-index-change", "modules", "../.gitmodules"}
		if !ok || hasRepository(repository) || slices.ContainsFunc(others, func(name string) bool { return exists(repository, name) }) {
			return false
		}
		files = append(files, filepath.Join(repository, "config"), filepath.Join(repository, "config.worktree"))
	}
	return env["HOME"] != "" && !slices.ContainsFunc(files, func(file string) bool {
		return mayHave(file, maxGitConfig, configForms().program.Match) // it may make git run a program or fetch
	})
}

// exists reports whether a file may exist.
func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !os.IsNotExist(err)
}

// hasRepository reports whether the index of a repository may have an entry that is
// another repository, in which git runs too, with the configuration there.
func hasRepository(repository string) bool {
	const mode = "\x00\x00\xe0\x00" // of such an entry
	files, err := os.ReadDir(repository)
	shared := func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), "sharedindex.") }
	return err != nil || slices.ContainsFunc(files, shared) || mayHave(filepath.Join(repository, "index"), maxGitIndex, func(index []byte) bool {
		return bytes.Contains(index, []byte(mode))
	})
}

// mayHave reports whether a file has what match finds. It returns true for one that cannot be
// read or is larger than most bytes, and false if it does not exist.
func mayHave(file string, most int64, match func(text []byte) bool) bool {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return !os.IsNotExist(err)
	}
	text, err := os.ReadFile(file)
	return err != nil || match(text)
}

// repositoryOf returns the .git directory that git finds from folder. It returns false if
// there is none, or if git may use another one.
func repositoryOf(folder string) (path string, ok bool) {
	working, err := os.Getwd()
	if err == nil {
		folder, err = filepath.EvalSymlinks(resolve(working, folder))
	}
	for err == nil && !exists(folder, ".git") {
		if exists(folder, "HEAD") || filepath.Dir(folder) == folder { // possibly a bare repository
			return "", false
		}
		folder = filepath.Dir(folder)
	}
	path = filepath.Join(folder, ".git")
	info, err2 := os.Lstat(path)
	isRepository := exists(path, "HEAD") && exists(path, "objects") && exists(path, "refs") // else git looks further up
	return path, err == nil && err2 == nil && info.IsDir() && isRepository
}

// maxGitConfig is the size, in bytes, of the largest git configuration file that is read.
const maxGitConfig = 64 << 10

// maxGitIndex is the size, in bytes, of the largest index that is read: about 100,000 files.
const maxGitIndex = 8 << 20

var configForms = sync.OnceValue(func() (f struct{ otherMachine, program *regexp.Regexp }) {
	// Commands that run a server with a different view of the file system.
	f.otherMachine = regexp.MustCompile(`\b(?:docker|podman|nerdctl|kubectl|ssh|wsl|sudo|chroot|bwrap|nsenter)\b`)
	// Settings that name programs or other configuration files.
	f.program = regexp.MustCompile(`(?i)fsmonitor|textconv|external|filter|hook|program|command|signature|` +
		`include|promisor|partialclone|trace2|` + gitForms().signature.String())
	return f
})
