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

// Statement says whether an SQL statement certainly changes nothing: a single
// SELECT, with or without WITH, its EXPLAIN, or a look at the schema. Databases
// differ, so what any of PostgreSQL, MySQL, SQLite, SQL Server and their like
// could take for something else is refused: a backslash in a string, a comment
// that may run, a function that is not a listed builtin.
//
// What a statement cannot show is taken to read as well: functions behind views,
// operators, casts and virtual columns, and Oracle's calls without parentheses.
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
		return t.query(0)
	case first.is("EXPLAIN"):
		at := 1
		if t.at(1).is("QUERY") && t.at(2).is("PLAN") {
			at = 3
		}
		return t.query(at)
	}
	return t.showsSchema()
}

//go:embed sql.toml
var sqlTOML string

// sqlWords are the lists of sql.toml, which says what they are.
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
		panic(err) // a test reads it
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

// maxStatement is the longest statement that is looked at, in bytes.
const maxStatement = 16 << 10

type tokenKind int

const (
	blank   tokenKind = iota
	sqlWord           // a keyword or a plain name
	quoted            // a quoted name; a string in MySQL
	bracket           // a name for some databases, a subscript for others
	sqlText           // a string
	number            // or a parameter such as $1
	punct
	operator
)

// tokenForms has a group for each kind of token, in order, of those that mean the same
// everywhere. MySQL subtracts where no blank follows two dashes; comments that do not begin
// with one are run by MySQL or obeyed by Oracle, and nested ones end sooner for some than
// for others. A backslash hides a quote in some databases only. A quoted name is a string in
// MySQL, and live text, of a single word, where backticks are no quotes. $$ and $a$ quote a
// string in PostgreSQL. Operators of an extension may do anything.
var tokenForms = sync.OnceValue(func() *regexp.Regexp {
	const char = `\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}` // what no text holds
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

// is reports whether the token is this keyword, in upper case, or punctuation.
func (t token) is(text string) bool {
	return (t.kind == sqlWord || t.kind == punct) && t.text == text
}

// named reports whether the token can name a table.
func (t token) named() bool {
	return t.kind == quoted || t.kind == bracket || t.kind == sqlWord && !words().writes[t.text]
}

// tokens is a statement without its trailing semicolon.
type tokens []token

// tokensOf cuts a statement; ok is false if databases would cut it differently.
func tokensOf(s string) (all tokens, ok bool) {
	// BigQuery knows strings in triple quotes.
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
		if comment && kind != blank || touches(before, kind) || kind == bracket && words().writes[strings.Trim(text, "[]")] {
			return nil, false
		}
		if kind != blank {
			all = append(all, token{kind, text})
		}
		before, s = kind, s[at[1]:]
	}
	return all, true
}

// touches reports whether two tokens of these kinds with nothing between them may mean
// something else: E” and N” change what is in a string, and <- may be an operator.
func touches(a, b tokenKind) bool {
	text := func(k tokenKind) bool { return k == sqlWord || k == quoted || k == sqlText || k == number }
	return text(a) && text(b) || a == operator && b == operator
}

// at gives the zero token, which is nothing, outside the statement.
func (t tokens) at(i int) token {
	if i < 0 || i >= len(t) {
		return token{}
	}
	return t[i]
}

// query says whether there is a reading query from the i-th token to the end. What a WITH
// names is looked at word by word as the rest is; only what it is for must be found: a
// SELECT outside of all parentheses.
func (t tokens) query(i int) bool {
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

// harmless says whether the i-th token of a query is.
func (t tokens) harmless(i int) bool {
	switch tok := t[i]; {
	case tok.is(";"):
		return false // another statement
	case tok.is("("):
		return t.opens(i)
	case tok.is("REPLACE"):
		return t.at(i + 1).is("(") // the function, not the statement
	case tok.kind == sqlWord:
		return !words().writes[tok.text]
	case tok.kind == sqlText:
		// DuckDB reads files and addresses called so.
		return !t.at(i-1).is("FROM") && !t.at(i-1).is("JOIN")
	}
	return true
}

// opens says whether a parenthesis may follow what is in front of it: it groups,
// or holds the arguments of a builtin.
func (t tokens) opens(i int) bool {
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
		return (earlier.is("AS") || earlier.is("NOT")) && t.reading(i+1)
	case "AS":
		return t.reading(i + 1)
	}
	return !earlier.is(".") && (words().groups[before.text] || words().functions[before.text])
}

// reading reports whether the i-th token begins what AS may name: a query or a
// window.
func (t tokens) reading(i int) bool {
	return slices.ContainsFunc([]string{"SELECT", "WITH", "VALUES", "PARTITION", "ORDER"}, t.at(i).is)
}

// showsSchema reports whether the statement has one of the forms that show the schema, with
// no word in it that writes but those the form has.
func (t tokens) showsSchema() bool {
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
