package classify

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// backgroundCommands start processes that outlive the command line.
var backgroundCommands = []string{"nohup", "setsid", "daemonize", "start-stop-daemon", "systemd-run", "tmux", "screen", "at", "batch", "pm2"}

// wrappers are commands that run a command given in their arguments.
var wrappers = []string{"sh", "bash", "zsh", "dash", "fish", "eval", "su", "sudo", "env", "xargs", "timeout", "time", "command", "exec"}

// Detaches reports whether a command line may leave a process running after it ends, as
// `make watch &` does. It does not detect commands that daemonize without an option for it.
// For a line that does not parse it returns true.
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

// callDetaches reports the same for one simple command.
func callDetaches(args []*syntax.Word) bool {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = literal(arg)
	}
	for i, word := range words {
		name := path.Base(word)
		switch {
		case word == "--detach" || word == "--daemon" || word == "--background":
			return true
		case i == 0 && slices.Contains(backgroundCommands, name), i > 0 && slices.Contains(wrappers, path.Base(words[0])) && slices.Contains(backgroundCommands, name):
			return true
		case i > 0 && slices.Contains(wrappers, path.Base(words[0])) && strings.ContainsAny(word, " &;|") && Detaches(word):
			return true
		case i == 0 && (name == "docker" || name == "podman" || name == "docker-compose") && slices.Contains(words, "-d"):
			return true
		}
	}
	return false
}

// literal returns a word without its quotes and without its expansions.
func literal(w *syntax.Word) string {
	var text strings.Builder
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			text.WriteString(n.Value)
		case *syntax.SglQuoted:
			text.WriteString(n.Value)
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false // the caller walks its statements
		}
		return true
	})
	return text.String()
}
