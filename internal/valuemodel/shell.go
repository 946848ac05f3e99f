package valuemodel

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

// shellReads says whether a command line certainly changes nothing, wherever and
// whenever it is run: `git log -3 | head -20` does, `sort -o x x` does not.
// Whatever it does not know is refused: it knows simple commands of a table, with
// the options listed there, joined by | && || and ;.
//
// The text is taken for a line of a POSIX-like shell or fish. cmd.exe and
// PowerShell read quotes differently, so a server that uses one of them must not
// be classified this way. What the server's user has set up (aliases, PATH,
// ripgrep's configuration, git's of the folder the server is in) is taken to keep a
// reading command one, and the output to be no terminal, so that no pager runs.
func shellReads(command string) bool {
	if len(command) > maxCommand || !plainASCII(command) {
		return false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 {
		return false
	}
	line := shellLine{text: command}
	for _, s := range file.Stmts {
		if !line.statement(s, false) {
			return false
		}
	}
	return line.between(len(command))
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

// shellLine is a command line whose statements are being looked at, from left to
// right.
type shellLine struct {
	text string
	done int // bytes of text that have been accounted for
}

// between reports whether there is nothing but blanks and operators up to the
// byte at end. A comment, which some shells take for words, is something.
func (l *shellLine) between(end int) bool {
	return end >= l.done && strings.Trim(l.text[l.done:end], " |&;") == ""
}

// statement says whether a statement reads; fed, whether its standard input is
// another one's output.
func (l *shellLine) statement(s *syntax.Stmt, fed bool) bool {
	if s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Redirs) > 0 {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		switch cmd.Op {
		case syntax.AndStmt, syntax.OrStmt:
			return l.statement(cmd.X, fed) && l.statement(cmd.Y, fed)
		case syntax.Pipe:
			return l.statement(cmd.X, fed) && l.statement(cmd.Y, true)
		}
	case *syntax.CallExpr:
		return len(cmd.Assigns) == 0 && l.call(cmd.Args, fed)
	}
	return false
}

func (l *shellLine) call(args []*syntax.Word, fed bool) bool {
	words := make([]shellWord, 0, len(args))
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
	cmd, ok := shellCommandNamed(words[0].text)
	return ok && cmd.reads(words[1:], fed)
}

// shellWord is an argument as the command gets it.
type shellWord struct {
	text string
	glob bool // the shell may put any number of file names in its place, even none
}

// operand reports whether a word is no option whatever the shell makes of it.
func (w shellWord) operand() bool { return w.text[0] != '-' && w.text[0] != '+' }

// wordOf gives the text of a word; ok is false if a shell may make something of
// it that its text does not say.
func wordOf(word *syntax.Word) (w shellWord, ok bool) {
	for i, part := range word.Parts {
		text, glob, ok := partOf(part)
		if !ok {
			if len(word.Parts) > 1 || !slices.Contains(bareWords, word.Lit()) {
				return w, false
			}
			return shellWord{text: strings.TrimPrefix(word.Lit(), `\`)}, true
		}
		if glob && !harmlessGlob(w.text+text[:strings.IndexAny(text, "*?")]) {
			return w, false
		}
		if i == 0 {
			w.text = text
		} else {
			w.text += text
		}
		w.glob = w.glob || glob
	}
	return w, w.text != "" && !deviceIn(w.text) && !(w.glob && strays(w.text))
}

// bareWords are the arguments that are no more than punctuation.
var bareWords = []string{"[", "]", "!", `\(`, `\)`, `\!`}

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
