package classify

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is the longest command line that is looked at, in bytes.
const maxCommand = 8 << 10

// bareBytes may stand in a word outside quotes. sh, bash, dash, zsh and fish take
// every one of them for itself, but for the globs * and ? and a leading ~.
const bareBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:@%+~*?"

// ShellLine says what a command line does, wherever and whenever it is run: of
// `git log -3 | head -20` it is known that it reads, of `sort -o x x` it is not. Whatever
// is not known is refused: let through are simple commands of a table, with the options
// listed there, joined by | && || and ;.
//
// The text is taken for a line of a POSIX-like shell or fish. cmd.exe and
// PowerShell read quotes differently, so a server that uses one of them must not
// be classified this way. What the server's user has set up (aliases, PATH,
// ripgrep's configuration, git's of the folder the server is in) is taken to keep a
// reading command one, and the output to be no terminal, so that no pager runs.
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
	if !l.between(len(command)) {
		return Effect{}
	}
	return l.effect
}

// plainASCII refuses new lines, tabs and whatever is not ASCII: shells and
// terminals differ over them.
func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// line is a command line whose statements are being looked at, from left to right.
type line struct {
	text   string
	done   int    // bytes of text that have been accounted for
	effect Effect // of the statements so far
}

// between reports whether there is nothing but blanks and operators up to the
// byte at end. A comment, which some shells take for words, is something.
func (l *line) between(end int) bool {
	return end >= l.done && strings.Trim(l.text[l.done:end], " |&;") == ""
}

// statement says whether a statement reads; fed, whether its standard input is
// another one's output.
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

// redirections lets through those that write to no file: 2>&1, and what goes to /dev/null.
// They must stand behind the words.
func (l *line) redirections(all []*syntax.Redirect) bool {
	for _, r := range all {
		from := "1"
		if r.N != nil {
			from = r.N.Value
		}
		joins := r.Op == syntax.DplOut && from == "2" && r.Word.Lit() == "1"
		drops := r.Op == syntax.RdrOut && (from == "1" || from == "2") && r.Word.Lit() == "/dev/null"
		if !joins && !drops || !l.between(int(r.Pos().Offset())) {
			return false
		}
		l.done = int(r.End().Offset())
	}
	return true
}

func (l *line) call(args []*syntax.Word, fed bool) bool {
	words := make([]word, 0, len(args))
	for _, arg := range args {
		start, end := int(arg.Pos().Offset()), int(arg.End().Offset())
		if !l.between(start) {
			return false
		}
		l.done = end
		w, ok := wordOf(arg)
		if !ok {
			return false
		}
		words = append(words, w)
	}
	if len(words) == 0 || l.text[args[0].Pos().Offset():args[0].End().Offset()] != words[0].text {
		return false // a quoted name is one to be wary of
	}
	return l.command(words[0].text, words[1:], fed)
}

// command adds what a command does to what those before it do; false if it is not known.
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

// word is an argument as the command gets it.
type word struct {
	text string
	glob bool // the shell may put any number of file names in its place, even none
}

// operand reports whether a word is no option whatever the shell makes of it.
func (w word) operand() bool { return w.text[0] != '-' && w.text[0] != '+' }

// wordOf gives the text of a word; ok is false if a shell may make something of
// it that its text does not say.
func wordOf(arg *syntax.Word) (w word, ok bool) {
	for _, part := range arg.Parts {
		text, glob, ok := partOf(part)
		if !ok {
			if len(arg.Parts) > 1 || !slices.Contains(bareWords, arg.Lit()) {
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
	return w, w.text != "" && !deviceIn(w.text) && !(w.glob && strays(w.text))
}

// bareWords are the arguments that are no more than punctuation.
var bareWords = []string{"!", `\(`, `\)`, `\!`}

func partOf(part syntax.WordPart) (text string, glob, ok bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		return p.Value, strings.ContainsAny(p.Value, "*?"), onlyOf(p.Value, bareBytes)
	case *syntax.SglQuoted:
		// fish takes \' for a quote that does not end the string.
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
		return lit.Value, false, plainQuoted(lit.Value)
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

// plainQuoted reports whether the text between double quotes means itself. A
// backslash does before a letter, as in the patterns of grep.
func plainQuoted(s string) bool {
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

// harmlessGlob reports whether what starts with prefix and goes on as the name of
// some file cannot be an option that the prefix does not name: a file may be
// called -delete.
func harmlessGlob(prefix string) bool {
	if prefix == "" || prefix[0] == '+' {
		return false
	}
	return prefix[0] != '-' || strings.HasPrefix(prefix, "--") && strings.Contains(prefix, "=")
}

// strays reports whether a glob may lead where its text does not show: /de?/tty is
// a device, and behind .. any folder may be the one at the top.
func strays(glob string) bool {
	if _, value, ok := strings.Cut(glob, "="); ok && strays(value) {
		return true
	}
	first, rest, deep := strings.Cut(strings.TrimPrefix(path.Clean(glob), "/"), "/")
	return strings.Contains(glob, "..") || strings.ContainsAny(first, "*?") && (deep && rest != "" || glob[0] == '/')
}

// deviceIn reports whether a word, or the value of the option it is, names a
// device, where reading may change something, or another machine's file.
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
	name = strings.ToLower(name) // as some file systems take it
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
