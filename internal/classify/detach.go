package classify

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// detachers are commands that leave something running.
var detachers = []string{"nohup", "setsid", "daemonize", "start-stop-daemon", "systemd-run", "tmux", "screen", "at", "batch", "pm2"}

// shells are commands that run what one of their words says.
var shells = []string{"sh", "bash", "zsh", "dash", "fish", "eval", "su", "sudo", "env", "xargs", "timeout", "time", "command", "exec"}

// Detaches reports whether a command line may leave something running that goes on when it
// has ended, as `make watch &` does. A command that makes itself a daemon unasked is not
// found out. A line that cannot be read may.
func Detaches(command string) bool {
	if len(command) > maxCommand {
		return true
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return true
	}
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background || n.Coprocess || n.Disown
		case *syntax.CoprocClause:
			found = true
		case *syntax.CallExpr:
			found = found || callDetaches(n.Args)
		}
		return !found
	})
	return found
}

// callDetaches is Detaches for one simple command.
func callDetaches(args []*syntax.Word) bool {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = written(arg)
	}
	for i, word := range words {
		name := path.Base(word)
		switch {
		case word == "--detach" || word == "--daemon" || word == "--background":
			return true
		case i == 0 && slices.Contains(detachers, name), i > 0 && slices.Contains(shells, path.Base(words[0])) && slices.Contains(detachers, name):
			return true
		case i > 0 && slices.Contains(shells, path.Base(words[0])) && strings.ContainsAny(word, " &;|") && Detaches(word):
			return true
		case i == 0 && (name == "docker" || name == "podman" || name == "docker-compose") && slices.Contains(words, "-d"):
			return true
		}
	}
	return false
}

// written is a word without its quotes; what is only known when it runs is left out.
func written(w *syntax.Word) string {
	var text strings.Builder
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			text.WriteString(n.Value)
		case *syntax.SglQuoted:
			text.WriteString(n.Value)
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false // walked over as statements
		}
		return true
	})
	return text.String()
}
