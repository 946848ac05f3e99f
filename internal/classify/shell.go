package classify

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is the length, in bytes, of the longest command line that is parsed.
const maxCommand = 8 << 10

// ShellLine classifies a command line: `git log -3 | head -20` reads, `sort -o x x` is
// Unknown. It accepts only simple commands of a table, with the options listed there,
// joined by |, &&, || and ;.
//
// ShellLine parses for a POSIX-like shell or fish. cmd.exe and PowerShell quote
// differently, so servers that use one of them must not be classified this way. It
// assumes that the user's own setup (aliases, PATH, the configuration of ripgrep, that
// of git in the server's directory) keeps reading commands read-only, and that the
// output is not a terminal, so that no pager runs.
func ShellLine(command string) Effect {
	// Shells and terminals treat other characters differently.
	odd := func(c rune) bool { return c < ' ' || c > '~' }
	if len(command) > maxCommand || strings.ContainsFunc(command, odd) {
		return Effect{}
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	file, err := parser.Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 || len(file.Last) > 0 {
		return Effect{}
	}
	e := Effect{Level: Reads}
	for _, s := range file.Stmts {
		if !e.statement(s, false) {
			return Effect{}
		}
	}
	return e
}

// statement adds the effect of a statement to that of the statements before it; false if
// it is unknown. fed means that its standard input is another statement's output.
// Comments are rejected, as some shells take their text for words.
func (e *Effect) statement(s *syntax.Stmt, fed bool) bool {
	if s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Comments) > 0 {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		switch {
		case len(s.Redirs) > 0:
		case cmd.Op == syntax.AndStmt, cmd.Op == syntax.OrStmt:
			return e.statement(cmd.X, fed) && e.statement(cmd.Y, fed)
		case cmd.Op == syntax.Pipe:
			return e.statement(cmd.X, fed) && e.statement(cmd.Y, true)
		}
	case *syntax.CallExpr:
		return len(cmd.Assigns) == 0 && !slices.ContainsFunc(s.Redirs, mayWrite) && e.call(cmd.Args, fed)
	}
	return false
}

// mayWrite reports whether a redirection is neither 2>&1 nor to /dev/null.
func mayWrite(r *syntax.Redirect) bool {
	from := "1"
	if r.N != nil {
		from = r.N.Value
	}
	joins := r.Op == syntax.DplOut && from == "2" && r.Word.Lit() == "1"
	drops := r.Op == syntax.RdrOut && (from == "1" || from == "2") && r.Word.Lit() == "/dev/null"
	return !joins && !drops
}

// call adds the effect of a simple command.
func (e *Effect) call(args []*syntax.Word, fed bool) bool {
	words := make([]word, len(args))
	for i, arg := range args {
		var ok bool
		if words[i], ok = wordOf(arg); !ok {
			return false
		}
	}
	if len(words) == 0 || args[0].Lit() != words[0].text {
		return false // the command name must not be quoted
	}
	if words[0].text == "git" {
		level, folder := git(words[1:], fed)
		if !slices.Contains(e.Folders, folder) {
			e.Folders = append(e.Folders, folder)
		}
		e.Level = min(e.Level, level)
		return level != Unknown
	}
	entries, rest := lookup(words)
	return slices.ContainsFunc(entries, func(c command) bool { return c.reads(rest, fed) })
}

// word is an argument as the command receives it.
type word struct {
	text string
	glob bool // the shell may expand it to any number of file names
}

// operand reports whether no expansion of the word can be an option.
func (w word) operand() bool { return w.text[0] != '-' && w.text[0] != '+' }

// unquotedBytes may appear in a word outside quotes. sh, bash, dash, zsh and fish take
// each of them literally, except the globs * and ? and a leading ~.
const unquotedBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:@%+~*?"

// punctuation lists arguments that have special characters outside quotes and are
// allowed.
var punctuation = []string{"!", `\(`, `\)`, `\!`}

// wordForms are the forms of words and of their parts.
var wordForms = sync.OnceValue(func() (f struct{ quoted, glob, escaping, device, folder *regexp.Regexp }) {
	// Between double quotes, a backslash before a letter, as in grep patterns, is literal.
	f.quoted = regexp.MustCompile("^(?:[^$`!\"\\\\]|\\\\[^$`!\"\\\\])*$")
	// A glob must not expand to an option that its text does not name (a file may be
	// called -delete), nor to a path that it does not show: /de?/tty is a device, and a
	// path with .. may reach the root.
	f.glob = regexp.MustCompile(`^(?:[^-+*?]|--[^*?]*=)`)
	f.escaping = regexp.MustCompile(`\.\.|^(?:\.?/)*[^/]*[*?][^/]*/.|^(?:\./+)*/[^/]*[*?]`)
	// A device, which reading may change, a file on another machine, or one below the home
	// of another user, such as sys, of which the home may be /dev. Some file systems ignore case.
	f.device = regexp.MustCompile(`(?i)(?:^|\.\.)/*(?:\.{1,2}/+)*(?:dev|proc|sys)/|^(?://|\\\\|~[^/])`)
	// A path in which no shell finds anything but its text, quoted or not, except for blanks. A
	// backslash may hide a device, or the quote after it, so only paths with a drive have some.
	const chars = `\pL\pM\pN_./=,:@%+~`
	f.folder = regexp.MustCompile(`^(?:(?:[` + chars + `][` + chars + ` -]*)?|[A-Za-z]:(?:\\?[` + chars + ` -])*)$`)
	return f
})

// wordOf returns the text of a word; ok is false if a shell may expand it to something
// else, except for harmless globs.
func wordOf(arg *syntax.Word) (w word, ok bool) {
	if slices.Contains(punctuation, arg.Lit()) {
		return word{text: strings.TrimPrefix(arg.Lit(), `\`)}, true
	}
	for _, part := range arg.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			w.text += p.Value
			w.glob = w.glob || strings.ContainsAny(p.Value, "*?")
			ok = strings.Trim(p.Value, unquotedBytes) == ""
		case *syntax.SglQuoted:
			w.text += p.Value
			ok = !p.Dollar && !strings.HasSuffix(p.Value, `\`) // in fish, \' does not end the string
		case *syntax.DblQuoted:
			lit := (&syntax.Word{Parts: p.Parts}).Lit()
			w.text += lit
			ok = !p.Dollar && (lit != "" || len(p.Parts) == 0) && wordForms().quoted.MatchString(lit)
		default:
			ok = false
		}
		if !ok {
			return w, false
		}
	}
	if w.glob && (!wordForms().glob.MatchString(w.text) || wordForms().escaping.MatchString(w.text)) {
		return w, false
	}
	isPath := strings.ContainsAny(w.text, `/\`) && w.text != "/dev/null"
	return w, w.text != "" && !(isPath && wordForms().device.MatchString(w.text))
}
