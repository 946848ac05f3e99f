package classify

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// Statement reports whether an SQL statement is certain to be read-only: a single SELECT,
// with or without WITH, its EXPLAIN, or a query of the schema. It rejects whatever
// PostgreSQL, MySQL, SQLite, SQL Server or similar databases could interpret differently:
// a backslash in a string, a comment that may be executed, a function that is not a listed
// builtin.
//
// It assumes that effects which a statement does not show are read-only too: functions
// called by views, operators, casts and virtual columns, and Oracle's calls without
// parentheses.
func Statement(text string) bool {
	t, ok := tokensOf(text)
	if last := len(t) - 1; ok && last >= 0 && t[last].is(";") {
		t = t[:last]
	}
	if !ok || len(t) == 0 {
		return false
	}
	switch first := t[0]; {
	case first.is("SELECT"), first.is("WITH"):
		return t.isQuery(0)
	case first.is("EXPLAIN"):
		at := 1
		if t.at(1).is("QUERY") && t.at(2).is("PLAN") {
			at = 3
		}
		return t.isQuery(at)
	}
	return t.isSchemaQuery()
}

//go:embed sql.toml
var sqlTOML string

// sqlWords are the lists of sql.toml, which documents them.
type sqlWords struct {
	writes, groups, functions map[string]bool
	schema                    *regexp.Regexp
}

var words = sync.OnceValue(func() sqlWords {
	var table struct {
		Writes, Groups, Functions string
		Schema                    []string
	}
	if _, err := toml.Decode(sqlTOML, &table); err != nil {
		panic(err) // a test decodes it
	}
	set := func(text string) map[string]bool {
		in := make(map[string]bool)
		for word := range strings.FieldsSeq(text) {
			in[word] = true
		}
		return in
	}
	forms := strings.ReplaceAll(strings.Join(table.Schema, "|"), "NAME", `WORD(?: \. WORD)*`)
	forms = strings.ReplaceAll(forms, "WORD", `(?:QUOTED|[A-Z_][A-Z0-9_]*)`)
	return sqlWords{set(table.Writes), set(table.Groups), set(table.Functions), regexp.MustCompile(`^(?:` + forms + `)$`)}
})

// maxStatement is the length, in bytes, of the longest statement that is parsed.
const maxStatement = 16 << 10

type tokenKind int

const (
	blank   tokenKind = iota
	sqlWord           // a keyword or a plain name
	quoted            // a quoted name; a string in MySQL
	bracket           // a name in some databases, a subscript in others
	sqlText           // a string
	number            // or a parameter such as $1
	punct
	operator
)

// tokenForms has a group for each kind of token, in order, and matches only tokens that
// mean the same in all databases. Two dashes without a blank are two minus signs in MySQL.
// MySQL executes some comments that do not begin with a blank, Oracle obeys some, and nested
// comments end at different places. A backslash escapes a quote only in some databases. A
// quoted name is a string in MySQL, and a backquoted name is a plain word where backquotes do
// not quote. $$ and $a$ quote strings in PostgreSQL. Operators of extensions may do anything.
var tokenForms = sync.OnceValue(func() *regexp.Regexp {
	const char = `\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}` // never accepted
	return regexp.MustCompile(`^(?:` + strings.Join([]string{
		`([ \t\n]|\r\n|--(?: [^` + char + `]*)?(?:\n|$)|/\*(?:[ \n](?:[^*/` + char + `]|\n)*)?\*/)`,
		`([A-Za-z_][A-Za-z0-9_]*)`,
		"(\"[A-Za-z0-9_ -]+\"|`[A-Za-z0-9_]+`)",
		`(\[[A-Za-z0-9_]+\])`,
		`('(?:[^'\\` + char + `]|'')*')`,
		`([0-9][0-9.]*|\$[0-9]+)`,
		`([(),;.?])`,
		`(<=|>=|<>|!=|\|\||::|->>|->|[=<>+\-*/%])`,
	}, "|") + `)`)
})

type token struct {
	kind tokenKind
	text string // upper case
}

// is reports whether the token is the given keyword, in upper case, or punctuation.
func (t token) is(text string) bool {
	return (t.kind == sqlWord || t.kind == punct) && t.text == text
}

// named reports whether the token can name a table.
func (t token) named() bool {
	return t.kind == quoted || t.kind == bracket || t.kind == sqlWord && !words().writes[t.text]
}

// tokens is a statement without its trailing semicolon.
type tokens []token

// tokensOf splits a statement into tokens; ok is false if databases would split it
// differently.
func tokensOf(s string) (all tokens, ok bool) {
	// BigQuery has strings in triple quotes.
	if len(s) > maxStatement || !utf8.ValidString(s) || strings.Contains(s, "'''") || strings.Contains(s, `"""`) {
		return nil, false
	}
	before := blank
	for len(s) > 0 {
		at := tokenForms().FindStringSubmatchIndex(s)
		if at == nil {
			return nil, false
		}
		kind := blank
		for at[2+2*kind] < 0 {
			kind++
		}
		text := strings.ToUpper(s[:at[1]])
		comment := strings.HasPrefix(s, "--") || strings.HasPrefix(s, "/*")
		if comment && kind != blank || ambiguous(before, kind) || kind == bracket && words().writes[strings.Trim(text, "[]")] {
			return nil, false
		}
		if kind != blank {
			all = append(all, token{kind, text})
		}
		before, s = kind, s[at[1]:]
	}
	return all, true
}

// ambiguous reports whether adjacent tokens of these kinds may have another meaning: E” and
// N” change how a string is decoded, and <- may be an operator.
func ambiguous(a, b tokenKind) bool {
	text := func(k tokenKind) bool { return k == sqlWord || k == quoted || k == sqlText || k == number }
	return text(a) && text(b) || a == operator && b == operator
}

// at returns the i-th token, or the zero token if there is none.
func (t tokens) at(i int) token {
	if i < 0 || i >= len(t) {
		return token{}
	}
	return t[i]
}

// isQuery reports whether the tokens from the i-th on are a read-only query. The body of a
// WITH clause is checked token by token like the rest, so isQuery only has to find the main
// SELECT, which is outside all parentheses.
func (t tokens) isQuery(i int) bool {
	depth, selects := 0, false
	for j, tok := range t {
		switch {
		case tok.is("("):
			depth++
		case tok.is(")"):
			depth--
		case j >= i && depth == 0 && tok.is("SELECT") && (j == i || t.at(i).is("WITH")):
			selects = j+1 < len(t)
		}
		if depth < 0 || !t.harmless(j) {
			return false
		}
	}
	return selects && depth == 0
}

// harmless reports whether the i-th token may appear in a read-only query.
func (t tokens) harmless(i int) bool {
	switch tok := t[i]; {
	case tok.is(";"):
		return false // another statement
	case tok.is("("):
		return t.mayOpen(i)
	case tok.is("REPLACE"):
		return t.at(i + 1).is("(") // the function, not the statement
	case tok.kind == sqlWord:
		return !words().writes[tok.text]
	case tok.kind == sqlText:
		// DuckDB reads files and URLs named by such strings.
		return !t.at(i-1).is("FROM") && !t.at(i-1).is("JOIN")
	}
	return true
}

// mayOpen reports whether the parenthesis at i only groups, or contains the arguments of
// a builtin.
func (t tokens) mayOpen(i int) bool {
	before, earlier := t.at(i-1), t.at(i-2)
	switch before.kind {
	case quoted, bracket, sqlText, number:
		return false
	case punct, operator:
		return !before.is(")") && !before.is("]") && !before.is("?")
	}
	switch before.text {
	case "OVER", "FILTER":
		return earlier.is(")")
	case "GROUP":
		return earlier.is("WITHIN")
	case "SETS":
		return earlier.is("GROUPING")
	case "MATERIALIZED":
		return (earlier.is("AS") || earlier.is("NOT")) && t.startsQuery(i+1)
	case "AS":
		return t.startsQuery(i + 1)
	}
	return !earlier.is(".") && (words().groups[before.text] || words().functions[before.text])
}

// startsQuery reports whether the i-th token begins a query or a window definition.
func (t tokens) startsQuery(i int) bool {
	return slices.ContainsFunc([]string{"SELECT", "WITH", "VALUES", "PARTITION", "ORDER"}, t.at(i).is)
}

// isSchemaQuery reports whether the statement matches one of the forms that show the schema,
// and has no keyword of a write beyond those of the form.
func (t tokens) isSchemaQuery() bool {
	text := make([]string, len(t))
	for i, tok := range t {
		switch {
		case tok.kind == quoted || tok.kind == bracket:
			text[i] = "QUOTED"
		case tok.kind == sqlText:
			text[i] = "STRING"
		case i > 0 && tok.kind == sqlWord && !tok.named() && !(i == 1 && tok.text == "CREATE" && t[0].text == "SHOW"):
			return false
		default:
			text[i] = tok.text
		}
	}
	return words().schema.MatchString(strings.Join(text, " "))
}
