package classify

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is the length, in bytes, of the longest command line that is parsed.
const maxCommand = 8 << 10

// unquotedBytes may appear in a word outside quotes. sh, bash, dash, zsh and fish take each
// of them literally, except the globs * and ? and a leading ~.
const unquotedBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:@%+~*?"

// ShellLine classifies a command line: `git log -3 | head -20` reads, `sort -o x x` is
// Unknown. It accepts only simple commands of a table, with the options listed there,
// joined by |, &&, || and ;.
//
// ShellLine parses for a POSIX-like shell or fish. cmd.exe and PowerShell quote differently,
// so servers that use one of them must not be classified this way. It assumes that the
// user's own setup (aliases, PATH, the configuration of ripgrep, that of git in the server's
// directory) keeps reading commands read-only, and that the output is not a terminal, so that
// no pager runs.
func ShellLine(command string) Effect {
	if len(command) > maxCommand || !plainASCII(command) {
		return Effect{}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 {
		return Effect{}
	}
	l := line{text: command, effect: Effect{Level: Reads}}
	for _, s := range file.Stmts {
		if !l.statement(s, false) {
			return Effect{}
		}
	}
	if !l.onlyOperators(len(command)) {
		return Effect{}
	}
	return l.effect
}

// plainASCII reports whether s has no control and no non-ASCII characters, which shells
// and terminals treat differently.
func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// line classifies the statements of a command line from left to right.
type line struct {
	text   string
	parsed int    // bytes of text classified so far
	effect Effect // of the statements so far
}

// onlyOperators reports whether the text from parsed to end has only blanks and operators.
// A comment counts as more, as some shells take its text for words.
func (l *line) onlyOperators(end int) bool {
	return end >= l.parsed && strings.Trim(l.text[l.parsed:end], " |&;") == ""
}

// statement reports whether a statement is accepted. fed means that its standard input is
// another statement's output.
func (l *line) statement(s *syntax.Stmt, fed bool) bool {
	if s.Negated || s.Background || s.Coprocess || s.Disown {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if len(s.Redirs) > 0 {
			return false
		}
		switch cmd.Op {
		case syntax.AndStmt, syntax.OrStmt:
			return l.statement(cmd.X, fed) && l.statement(cmd.Y, fed)
		case syntax.Pipe:
			return l.statement(cmd.X, fed) && l.statement(cmd.Y, true)
		}
	case *syntax.CallExpr:
		return len(cmd.Assigns) == 0 && l.call(cmd.Args, fed) && l.redirections(s.Redirs)
	}
	return false
}

// redirections reports whether all redirections are 2>&1 or go to /dev/null. They must
// follow the words of the command.
func (l *line) redirections(all []*syntax.Redirect) bool {
	for _, r := range all {
		from := "1"
		if r.N != nil {
			from = r.N.Value
		}
		joins := r.Op == syntax.DplOut && from == "2" && r.Word.Lit() == "1"
		drops := r.Op == syntax.RdrOut && (from == "1" || from == "2") && r.Word.Lit() == "/dev/null"
		if !joins && !drops || !l.onlyOperators(int(r.Pos().Offset())) {
			return false
		}
		l.parsed = int(r.End().Offset())
	}
	return true
}

func (l *line) call(args []*syntax.Word, fed bool) bool {
	words := make([]word, 0, len(args))
	for _, arg := range args {
		start, end := int(arg.Pos().Offset()), int(arg.End().Offset())
		if !l.onlyOperators(start) {
			return false
		}
		l.parsed = end
		w, ok := wordOf(arg)
		if !ok {
			return false
		}
		words = append(words, w)
	}
	if len(words) == 0 || l.text[args[0].Pos().Offset():args[0].End().Offset()] != words[0].text {
		return false // the command name must not be quoted
	}
	return l.command(words[0].text, words[1:], fed)
}

// command adds the effect of a command to that of the line; false if it is unknown.
func (l *line) command(name string, words []word, fed bool) bool {
	if name == "git" {
		level, folder := git(words, fed)
		if level == Quiet && !slices.Contains(l.effect.Repositories, folder) {
			l.effect.Repositories = append(l.effect.Repositories, folder)
		}
		l.effect.Level = min(l.effect.Level, level)
		return level != Unknown
	}
	if name == "sed" {
		return sed(words, fed)
	}
	c, known := commands()[name]
	return known && c.reads(words, fed)
}

// word is an argument as the command receives it.
type word struct {
	text string
	glob bool // the shell may expand it to any number of file names
}

// operand reports whether no expansion of the word can be an option.
func (w word) operand() bool { return w.text[0] != '-' && w.text[0] != '+' }

// wordOf returns the text of a word; ok is false if a shell may expand it to something
// else, except for harmless globs.
func wordOf(arg *syntax.Word) (w word, ok bool) {
	for _, part := range arg.Parts {
		text, glob, ok := partOf(part)
		if !ok {
			if len(arg.Parts) > 1 || !slices.Contains(punctuation, arg.Lit()) {
				return w, false
			}
			return word{text: strings.TrimPrefix(arg.Lit(), `\`)}, true
		}
		if glob && !harmlessGlob(w.text+text[:strings.IndexAny(text, "*?")]) {
			return w, false
		}
		w.text += text
		w.glob = w.glob || glob
	}
	return w, w.text != "" && !deviceIn(w.text) && !(w.glob && escapes(w.text))
}

// punctuation lists arguments that have special characters outside quotes and are allowed.
var punctuation = []string{"!", `\(`, `\)`, `\!`}

func partOf(part syntax.WordPart) (text string, glob, ok bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		return p.Value, strings.ContainsAny(p.Value, "*?"), onlyOf(p.Value, unquotedBytes)
	case *syntax.SglQuoted:
		// In fish, \' does not end the string.
		return p.Value, false, !p.Dollar && !strings.HasSuffix(p.Value, `\`)
	case *syntax.DblQuoted:
		if p.Dollar || len(p.Parts) > 1 {
			return "", false, false
		}
		if len(p.Parts) == 0 {
			return "", false, true
		}
		lit, ok := p.Parts[0].(*syntax.Lit)
		if !ok {
			return "", false, false
		}
		return lit.Value, false, literalQuoted(lit.Value)
	}
	return "", false, false
}

func onlyOf(s, bytes string) bool {
	for i := range len(s) {
		if strings.IndexByte(bytes, s[i]) < 0 {
			return false
		}
	}
	return true
}

// literalQuoted reports whether shells take the text between double quotes literally. A
// backslash before a letter, as in grep patterns, is literal.
func literalQuoted(s string) bool {
	if strings.ContainsAny(s, "$`!\"") {
		return false
	}
	for i := range len(s) {
		if s[i] == '\\' && (i+1 == len(s) || s[i+1] == '\\' || i > 0 && s[i-1] == '\\') {
			return false
		}
	}
	return true
}

// harmlessGlob reports whether a glob after prefix cannot expand to an option that the
// prefix does not name: a file may be called -delete.
func harmlessGlob(prefix string) bool {
	if prefix == "" || prefix[0] == '+' {
		return false
	}
	return prefix[0] != '-' || strings.HasPrefix(prefix, "--") && strings.Contains(prefix, "=")
}

// escapes reports whether a glob may expand to a path that its text does not show: /de?/tty
// is a device, and a path with .. may reach the root.
func escapes(glob string) bool {
	if _, value, ok := strings.Cut(glob, "="); ok && escapes(value) {
		return true
	}
	first, rest, deep := strings.Cut(strings.TrimPrefix(path.Clean(glob), "/"), "/")
	return strings.Contains(glob, "..") || strings.ContainsAny(first, "*?") && (deep && rest != "" || glob[0] == '/')
}

// deviceIn reports whether a word, or the value of an option in it, names a device, which
// reading may change, or a file on another machine.
func deviceIn(word string) bool {
	if device(word) {
		return true
	}
	if _, value, ok := strings.Cut(word, "="); ok && device(value) {
		return true
	}
	return len(word) > 2 && word[0] == '-' && device(word[2:])
}

func device(name string) bool {
	name = strings.ToLower(name) // some file systems ignore case
	if strings.HasPrefix(name, "//") || strings.HasPrefix(name, `\\`) {
		return true
	}
	if name == "/dev/null" || !strings.Contains(name, "dev") && !strings.Contains(name, "proc") && !strings.Contains(name, "sys") {
		return false
	}
	name = strings.TrimPrefix(path.Clean(name), "/")
	for strings.HasPrefix(name, "../") {
		name = name[len("../"):]
	}
	first, _, _ := strings.Cut(name, "/")
	return first == "dev" || first == "proc" || first == "sys"
}
