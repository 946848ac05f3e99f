package classify

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// detachForms match simple commands, as their words with blanks between them.
var detachForms = sync.OnceValue(func() (f struct{ background, wrapper, shell *regexp.Regexp }) {
	const shells = `(?:\S*/)?(?:sh|bash|zsh|dash|ash|ksh|fish)`
	const wrappers = `(?:(?:\S*/)?(?:busybox|eval|su|sudo|doas|env|xargs|nice|ionice|stdbuf|flock|timeout|time|command|exec)|` +
		`(?:find .*-(?:exec|ok)(?:dir)? )?` + shells + `)`
	// A program that starts a process which outlives it, or an option that makes one do so.
	f.background = regexp.MustCompile(`^(?:` + wrappers + ` (?:.* )?)?(?:\S*/)?` +
		`(?:(?:nohup|setsid|daemonize|start-stop-daemon|systemd-run|tmux|screen|at|batch|pm2)(?: |$)|` +
		`(?:docker|podman|docker-compose) (?:.* )?-[a-zA-Z]*d[a-zA-Z]*(?: |$))| --(?:detach|daemon|background)(?:[ =]|$)`)
	// A command that runs a command line given in its arguments.
	f.wrapper = regexp.MustCompile(`^` + wrappers + ` `)
	// A shell that runs its standard input.
	f.shell = regexp.MustCompile(`^(?:(?:` + wrappers + `|docker|podman) (?:.* )?)?` + shells +
		`(?: [-+]\S*(?:o \w+)?)*(?: -\w*s .*)?$`)
	return f
})

var quotes = strings.NewReplacer("'", "", `"`, "", `\`, "")

// Detaches reports whether a command line may leave a process running after it ends, as
// `make watch &` does. It does not detect commands that daemonize without an option for
// it. For a line that does not parse it returns true.
func Detaches(command string) bool {
	budget := 8 * maxCommand
	return detaches(command, &budget)
}

// detaches is Detaches within a budget of bytes to read. In a line with nested commands, the
// inner ones are read again with each outer one.
func detaches(command string, budget *int) bool {
	if *budget -= len(command); len(command) > maxCommand {
		return true
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return true
	}
	found, forms := false, detachForms()
	var documents []string // here-documents
	runsInput := false     // some shell does, which may get them through a pipe or a block
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background || n.Coprocess || n.Disown
		case *syntax.CoprocClause:
			found = true
		case *syntax.Redirect:
			if n.Hdoc != nil {
				documents = append(documents, command[n.Hdoc.Pos().Offset():n.Hdoc.End().Offset()])
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			call := quotes.Replace(command[n.Args[0].Pos().Offset():n.End().Offset()])
			*budget -= len(call)
			wrapped := strings.TrimPrefix(call, forms.wrapper.FindString(call))
			nested := wrapped != call && strings.ContainsAny(wrapped, "&;|")
			found = found || *budget < 0 || forms.background.MatchString(call) || nested && detaches(wrapped, budget)
			runsInput = runsInput || forms.shell.MatchString(call)
		}
		return !found
	})
	isDetaching := func(document string) bool { return detaches(document, budget) }
	return found || runsInput && slices.ContainsFunc(documents, isDetaching)
}
