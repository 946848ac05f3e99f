package classify

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Process is how a server was started: by that it is known what git obeys when the server
// runs it.
type Process struct {
	Path string
	Args []string // without the name of the program
	Dir  string
	Env  []string // complete
}

// PlainGit reports whether git, run by a server in these folders, runs no program that was
// set up for it: none for fsmonitor, textconv, diffs, filters, hooks or signatures. Folders
// are seen from the one that the server was started in: what is set up where a shell has
// gone since is taken for its user's own.
//
// It looks for the words of such settings in the configuration that holds there, and assumes
// the worst where that takes more: included files, work trees, submodules, another machine.
// Attributes only choose among the programs that a configuration names. It reads files, and
// takes as long as the file system does.
func PlainGit(server Process, folders []string) bool {
	return server.plain() && !slices.ContainsFunc(folders, func(folder string) bool { return !plainRepository(server.Dir, folder) })
}

// plain reports whether the configuration of the system and of the user names no program.
func (p Process) plain() bool {
	words := strings.Join(append([]string{p.Path}, p.Args...), " ")
	if p.Path == "" || runtime.GOOS == "windows" || otherMachine().MatchString(words) {
		return false
	}
	home, config := "", ""
	for _, variable := range p.Env {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case strings.HasPrefix(name, "GIT_"):
			return false
		case name == "HOME":
			home = value
		case name == "XDG_CONFIG_HOME":
			config = value
		}
	}
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	files := []string{
		"/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig", // of the system, as git is built
		filepath.Join(config, "git", "config"), filepath.Join(home, ".gitconfig"),
	}
	return home != "" && !slices.ContainsFunc(files, namesProgram)
}

// plainRepository reports whether a repository has none of that.
func plainRepository(base, folder string) bool {
	repository, ok := repositoryOf(base, folder)
	if !ok || namesProgram(filepath.Join(repository, "config")) || namesProgram(filepath.Join(repository, "config.worktree")) {
		return false
	}
	for _, name := range []string{"hooks/post-index-change", "modules", "../.gitmodules"} {
		if _, err := os.Lstat(filepath.Join(repository, name)); !os.IsNotExist(err) {
			return false
		}
	}
	return true
}

// otherMachine finds the commands that run a server where it sees other files.
var otherMachine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(docker|podman|nerdctl|kubectl|ssh|wsl|sudo|chroot|bwrap|nsenter)\b`)
})

// repositoryOf is the .git folder that git finds from a folder, itself seen from base.
func repositoryOf(base, folder string) (path string, ok bool) {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(base, folder)
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", false
	}
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return "", false
	}
	for {
		path = filepath.Join(folder, ".git")
		switch info, err := os.Lstat(path); {
		case err == nil:
			return path, info.IsDir()
		case !os.IsNotExist(err):
			return "", false
		}
		if _, err := os.Lstat(filepath.Join(folder, "HEAD")); err == nil { // it may be bare
			return "", false
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", false
		}
		folder = parent
	}
}

// maxGitConfig is the longest file of git's configuration that is looked at, in bytes.
const maxGitConfig = 64 << 10

// namesProgram reports whether a file of git's configuration may have git run a program, or
// fetch; not if it does not exist.
func namesProgram(file string) bool {
	info, err := os.Stat(file)
	if os.IsNotExist(err) {
		return false
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxGitConfig {
		return true
	}
	text, err := os.ReadFile(file)
	return err != nil || gitProgram().Match(text)
}

// gitProgram finds the settings that name programs, or other files of configuration.
var gitProgram = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)fsmonitor|textconv|external|filter|hook|program|command|showsignature|include|promisor|partialclone|trace2`)
})
