package classify

import (
	"regexp"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// detachForms match simple commands, as their words with blanks between them.
var detachForms = sync.OnceValue(func() (f struct{ background, wrapper, shell, ampersand *regexp.Regexp }) {
	const shells = `(?:\S*/)?(?:sh|bash|zsh|dash|ash|ksh|fish)`
	const wrappers = `(?:(?:\S*/)?(?:busybox|eval|su|sudo|doas|env|xargs|nice|ionice|stdbuf|flock|timeout|time|command|exec)|` +
		`(?:find .*-(?:exec|ok)(?:dir)? )?` + shells + `)`
	// A program that starts a process which outlives it, or an option that makes one do so.
	f.background = regexp.MustCompile(`^(?:` + wrappers + ` (?:.* )?)?(?:\S*/)?` +
		`(?:(?:coproc|nohup|setsid|daemonize|start-stop-daemon|systemd-run|tmux|screen|at|batch|pm2)(?: |$)|` +
		`(?:docker|podman|docker-compose) (?:.* )?-[a-zA-Z]*d[a-zA-Z]*(?: |$))| --(?:detach|daemon|background)(?:[ =]|$)`)
	// A command that runs a command line given in its arguments.
	f.wrapper = regexp.MustCompile(`^` + wrappers + ` `)
	// A shell that runs its standard input.
	f.shell = regexp.MustCompile(`^(?:(?:` + wrappers + `|docker|podman) (?:.* )?)?` + shells +
		`(?: [-+]\S*(?:o \w+)?)*(?: -\w*s .*)?$`)
	// An & that is no part of &&, |& or a redirection.
	f.ampersand = regexp.MustCompile(`(?:^|[^&|<>])&(?:[^&>]|$)`)
	return f
})

// plainText removes the quotes of a command line's arguments, and separates its commands by blanks.
var plainText = strings.NewReplacer("'", "", `"`, "", `\`, "", "\n", " ; ", ";", " ; ",
	"&&", " && ", "|&", " |& ", "|", " | ", "(", " ( ", ")", " ) ", "`", " ` ")

// Detaches reports whether a command line may leave a process running after it ends, as
// `make watch &` does. It does not detect commands that daemonize without an option for
// it. For a line that does not parse it returns true, and so it does for a here-document that a
// shell may run.
func Detaches(command string) bool {
	if len(command) > maxCommand {
		return true
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return true
	}
	found, forms := false, detachForms()
	budget := 8 * maxCommand // bytes to search: a nested command is part of the outer ones too
	hasDocument := false     // a here-document
	runsInput := false       // some shell does, which may get it through a pipe or a block
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background || n.Coprocess || n.Disown
		case *syntax.CoprocClause:
			found = true
		case *syntax.Redirect:
			hasDocument = hasDocument || n.Hdoc != nil
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			call := plainText.Replace(command[n.Args[0].Pos().Offset():n.End().Offset()])
			budget -= len(call)
			wraps := forms.wrapper.MatchString(call) && forms.ampersand.MatchString(call)
			found = found || budget < 0 || wraps || forms.background.MatchString(call)
			runsInput = runsInput || forms.shell.MatchString(call)
		}
		return !found
	})
	return found || runsInput && hasDocument
}
