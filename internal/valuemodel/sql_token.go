package valuemodel

import (
	"strings"
	"unicode/utf8"
)

// maxStatement is the longest statement that is looked at, in bytes.
const maxStatement = 64 << 10

type sqlKind byte

const (
	sqlNone   sqlKind = iota
	sqlWord           // a keyword or a plain name
	sqlQuoted         // a quoted name; a string in MySQL
	sqlString
	sqlNumber // or a parameter such as $1
	sqlPunct
)

type sqlToken struct {
	kind sqlKind
	text string // upper case
}

// is reports whether the token is this keyword, in upper case, or punctuation.
func (t sqlToken) is(text string) bool {
	return (t.kind == sqlWord || t.kind == sqlPunct) && t.text == text
}

// named reports whether the token can name a table.
func (t sqlToken) named() bool {
	return t.kind == sqlQuoted || t.kind == sqlWord && !sqlWrites(t.text)
}

// sqlTokens cuts a statement; ok is false if databases would cut it differently.
func sqlTokens(s string) (tokens []sqlToken, ok bool) {
	// BigQuery knows strings in triple quotes.
	if len(s) > maxStatement || !utf8.ValidString(s) || strings.Contains(s, "'''") || strings.Contains(s, `"""`) {
		return nil, false
	}
	for len(s) > 0 {
		kind, n := nextSQL(s)
		if n <= 0 {
			return nil, false
		}
		if kind != sqlNone {
			tokens = append(tokens, sqlToken{kind, strings.ToUpper(s[:n])})
		}
		s = s[n:]
	}
	return tokens, true
}

// nextSQL measures the token, the blank or the comment at the start of s; n is 0
// if there is none that means the same everywhere.
func nextSQL(s string) (kind sqlKind, n int) {
	switch c := s[0]; {
	case c == ' ' || c == '\t' || c == '\n':
		return sqlNone, 1
	case strings.HasPrefix(s, "\r\n"):
		return sqlNone, 2
	case strings.HasPrefix(s, "--"):
		return sqlNone, lineComment(s)
	case strings.HasPrefix(s, "/*"):
		return sqlNone, blockComment(s)
	case c == '\'':
		return sqlString, sqlStringEnd(s)
	case c == '"' || c == '`':
		return sqlQuoted, quotedEnd(s)
	case c == '[':
		return sqlQuoted, bracketEnd(s)
	case letter(c):
		return sqlWord, wordEnd(s)
	case digit(c):
		return sqlNumber, numberEnd(s)
	case c == '$':
		return sqlNumber, parameterEnd(s)
	case strings.IndexByte("(),;.?", c) >= 0:
		return sqlPunct, 1
	}
	return sqlPunct, operatorEnd(s)
}

// lineComment wants a space after the dashes: MySQL subtracts without one. A
// carriage return would end the comment for PostgreSQL alone.
func lineComment(s string) int {
	end := strings.IndexByte(s, '\n')
	if end < 0 {
		end = len(s)
	}
	body := s[len("--"):end]
	if body != "" && body[0] != ' ' || !plainText(body) {
		return 0
	}
	return end
}

// blockComment refuses those that MySQL runs and Oracle obeys, and nested ones,
// which end sooner for some than for others.
func blockComment(s string) int {
	body, _, ok := strings.Cut(s[len("/*"):], "*/")
	if !ok || body != "" && body[0] != ' ' && body[0] != '\n' || strings.Contains(body, "/*") || strings.HasSuffix(body, "/") ||
		!plainText(strings.ReplaceAll(body, "\n", "")) {
		return 0
	}
	return len("/*") + len(body) + len("*/")
}

// sqlStringEnd refuses a backslash, which hides a quote in some databases only.
func sqlStringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			i++
			continue
		}
		if !plainText(s[1:i]) || strings.Contains(s[1:i], `\`) {
			return 0
		}
		return i + 1
	}
	return 0
}

// quotedEnd wants a plain name: it is a string in MySQL, and live text, of a
// single word, where backticks are no quotes.
func quotedEnd(s string) int {
	end := 1 + strings.IndexByte(s[1:], s[0])
	body := s[1:max(end, 1)]
	if end == 0 || body == "" || end+1 < len(s) && (s[end+1] == s[0] || s[end+1] == '\'' || letter(s[end+1])) {
		return 0
	}
	for i := range len(body) {
		if c := body[i]; !letter(c) && !digit(c) && (s[0] == '`' || c != ' ' && c != '-') {
			return 0
		}
	}
	return end + 1
}

// bracketEnd wants a single word or number: a name for some databases, a
// subscript for others.
func bracketEnd(s string) int {
	end := strings.IndexByte(s, ']')
	if end < 2 {
		return 0
	}
	for i := 1; i < end; i++ {
		if !letter(s[i]) && !digit(s[i]) {
			return 0
		}
	}
	if sqlWrites(strings.ToUpper(s[1:end])) {
		return 0
	}
	return end + 1
}

// wordEnd refuses a word that touches a quote: E” and N” change what is in it.
func wordEnd(s string) int {
	n := 1
	for n < len(s) && (letter(s[n]) || digit(s[n])) {
		n++
	}
	if n < len(s) && strings.IndexByte("'\"`$", s[n]) >= 0 {
		return 0
	}
	return n
}

func numberEnd(s string) int {
	n := 1
	for n < len(s) && (digit(s[n]) || s[n] == '.') {
		n++
	}
	if n < len(s) && (letter(s[n]) || strings.IndexByte("'\"`$", s[n]) >= 0) {
		return 0
	}
	return n
}

// parameterEnd knows $1 only: $$ and $a$ quote a string in PostgreSQL.
func parameterEnd(s string) int {
	if len(s) < 2 || !digit(s[1]) {
		return 0
	}
	n := numberEnd(s[1:])
	if n == 0 || strings.Contains(s[1:1+n], ".") {
		return 0
	}
	return 1 + n
}

// operatorEnd knows operators that compute. An extension's own may do anything,
// and U&” is a string with escapes.
func operatorEnd(s string) int {
	n := 0
	for n < len(s) && strings.IndexByte("+-*/%=<>|!&:~^#@\\", s[n]) >= 0 {
		if strings.HasPrefix(s[n:], "--") || strings.HasPrefix(s[n:], "/*") {
			break
		}
		n++
	}
	if n > 0 && n < len(s) && s[n-1] == '&' && (s[n] == '\'' || s[n] == '"') {
		return 0
	}
	switch s[:n] {
	case "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "||", "::", "->", "->>", "&", "|":
		return n
	}
	return 0
}

// plainText reports whether there is no control character in s. Others than
// ASCII are welcome: it is the text of a string or a comment.
func plainText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 }) < 0
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

func digit(c byte) bool { return c >= '0' && c <= '9' }
