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

// Process describes how a server was started. It determines which configuration git reads
// when the server runs it.
type Process struct {
	Path string
	Args []string // without the name of the program
	Dir  string
	Env  []string // complete
}

// PlainGit reports whether git, run by the server in these directories, runs no configured
// program for fsmonitor, textconv, diffs, filters, hooks or signatures. Relative directories
// are relative to the server's initial working directory. If its shell has changed directory
// since, PlainGit trusts the configuration there as the user's own.
//
// PlainGit searches the effective configuration files for such settings. It returns false if
// they do not suffice: with included files, linked work trees, submodules, or a server on
// another machine. Attributes only choose among programs that the configuration names. It
// blocks on file system reads.
func PlainGit(server Process, folders []string) bool {
	return server.plain() && !slices.ContainsFunc(folders, func(folder string) bool { return !plainRepository(server.Dir, folder) })
}

// plain reports whether the system's and the user's configuration name no program.
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

// plainRepository reports whether the repository has no such programs, hooks or submodules.
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

// otherMachine matches commands that run a server with a different view of the file system.
var otherMachine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(docker|podman|nerdctl|kubectl|ssh|wsl|sudo|chroot|bwrap|nsenter)\b`)
})

// repositoryOf returns the .git directory that git finds from folder, which may be relative
// to base.
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
		if _, err := os.Lstat(filepath.Join(folder, "HEAD")); err == nil { // possibly a bare repository
			return "", false
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", false
		}
		folder = parent
	}
}

// maxGitConfig is the size, in bytes, of the largest git configuration file that is read.
const maxGitConfig = 64 << 10

// namesProgram reports whether a git configuration file may make git run a program or
// fetch. It returns false if the file does not exist.
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

// gitProgram matches settings that name programs or other configuration files.
var gitProgram = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)fsmonitor|textconv|external|filter|hook|program|command|showsignature|include|promisor|partialclone|trace2`)
})
