package classify

import (
	"regexp"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// detachForms match simple commands, as their words with blanks between them.
var detachForms = sync.OnceValue(func() (f struct{ background, wrapper *regexp.Regexp }) {
	const wrappers = `(?:\S*/)?(?:sh|bash|zsh|dash|fish|eval|su|sudo|env|xargs|timeout|time|command|exec)`
	// A program that starts a process which outlives it, or an option that makes one do so.
	f.background = regexp.MustCompile(`^(?:` + wrappers + ` (?:.* )?)?(?:\S*/)?` +
		`(?:(?:nohup|setsid|daemonize|start-stop-daemon|systemd-run|tmux|screen|at|batch|pm2)(?: |$)|` +
		`(?:docker|podman|docker-compose) (?:.* )?-[a-zA-Z]*d[a-zA-Z]*(?: |$))| --(?:detach|daemon|background)(?:[ =]|$)`)
	// A command that runs a command line given in its arguments.
	f.wrapper = regexp.MustCompile(`^` + wrappers + ` `)
	return f
})

var quotes = strings.NewReplacer("'", "", `"`, "", `\`, "")

// Detaches reports whether a command line may leave a process running after it ends, as
// `make watch &` does. It does not detect commands that daemonize without an option for
// it. For a line that does not parse it returns true.
func Detaches(command string) bool {
	if len(command) > maxCommand {
		return true
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return true
	}
	found, forms := false, detachForms()
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background || n.Coprocess || n.Disown
		case *syntax.CoprocClause:
			found = true
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			call := quotes.Replace(command[n.Args[0].Pos().Offset():n.End().Offset()])
			wrapped := strings.TrimPrefix(call, forms.wrapper.FindString(call))
			nested := wrapped != call && strings.ContainsAny(wrapped, "&;|")
			found = found || forms.background.MatchString(call) || nested && Detaches(wrapped)
		}
		return !found
	})
	return found
}
