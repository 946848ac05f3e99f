package secret

import (
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// pair is what an object says of itself: what it names, and what that is.
type pair struct {
	kind     kind
	from, to int // of the value
	edit     int // that was made to it already; -1: none
}

// see takes a member whose value stands from from to to.
func (p *pair) see(w *walk, name string, from, to int) {
	if w.in[from] != '"' {
		return
	}
	switch strings.ToLower(name) {
	case "value", "text", "val", "content", "default":
		p.from, p.to, p.edit = from, to, len(w.edits)-1
		if p.edit >= 0 && w.edits[p.edit].from != from {
			p.edit = -1
		}
	case "name", "key", "header", "variable", "parameter", "param", "option":
		p.say(classify(w.read(from, to)))
	case "field", "label", "element", "selector", "placeholder":
		p.say(phrase(w.read(from, to)))
	}
}

func (p *pair) say(k kind) {
	if p.kind == plain {
		p.kind = k
	}
}

// read returns the string that has been gone through last, as it is now.
func (w *walk) read(from, to int) string {
	raw := w.in[from:to]
	if n := len(w.edits); n > 0 && w.edits[n-1].from == from {
		raw = w.edits[n-1].with
	}
	s, _ := jsonrpc.String(raw)
	return s
}

// close scrubs the value if its name says so.
func (p *pair) close(w *walk) {
	if p.kind == plain || p.to == 0 {
		return
	}
	s, _ := jsonrpc.String(w.in[p.from:p.to])
	if n := marked(s); n > 0 && n == len(s) || !p.kind.value(s) && (p.edit < 0 || !p.kind.strong()) {
		return
	}
	if p.edit < 0 {
		p.edit = len(w.edits)
		w.replace(p.from, p.to, "")
	}
	w.edits[p.edit].with = jsonrpc.AppendString(nil, mark(kinds[p.kind].rule))
}

// invocation is a command and, beside it, its arguments, which may stand first:
// {"args": ["-p", "hunter2"], "command": "sshpass"}.
type invocation struct {
	command string
	from    int // of the arguments; 0: there are none, or more than texts among them
	edits   run // that were made to them
}

// see takes a member whose value begins at from. Before it there were so many
// arrays and objects, and edits.
func (c *invocation) see(w *walk, name string, from, inner, edits int) {
	switch strings.ToLower(name) {
	case "command", "cmd", "program", "executable":
		if w.in[from] == '"' {
			c.command = w.read(from, w.end(from))
		}
	case "args", "argv", "arguments":
		if w.in[from] == '[' && w.inner == inner+1 {
			c.from, c.edits = from, run{edits, len(w.edits)}
		}
	}
}

// close goes through the arguments once more, with the command before them.
func (c *invocation) close(w *walk) {
	if c.from == 0 || c.command == "" {
		return
	}
	w.edits = slices.Delete(w.edits, c.edits.from, c.edits.to)
	w.array(c.from, scope{}, command{line: c.command + " "})
}
