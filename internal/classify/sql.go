package classify

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// maxStatement is the length, in bytes, of the longest statement that is parsed.
const maxStatement = 16 << 10

// selects reports whether an SQL statement is certain to be read-only: a single SELECT,
// with or without WITH, its EXPLAIN, or a query of the schema. It rejects whatever
// PostgreSQL, MySQL, SQLite, SQL Server or similar databases could interpret
// differently: a backslash in a string, a comment that may be executed, a function that
// is not a listed builtin.
//
// It assumes that effects which a statement does not show are read-only too: functions
// called by views, operators, casts and virtual columns, calls of a user's functions without
// parentheses, in Oracle and as columns in PostgreSQL, and what virtual and foreign tables do
// when they are read, such as osquery's curl, which requests a URL.
func selects(text string) bool {
	t, ok := tokensOf(text)
	if last := len(t) - 1; ok && last >= 0 && t[last].text == ";" {
		t = t[:last]
	}
	switch {
	case !ok || len(t) == 0:
		return false
	case t.at(0) == "EXPLAIN" && t.at(1) == "QUERY" && t.at(2) == "PLAN":
		return t.isQuery(3)
	case t.at(0) == "EXPLAIN":
		return t.isQuery(1)
	}
	return t.isQuery(0) || t.isSchemaQuery()
}

//go:embed sql.toml
var sqlTOML string

// sqlWords are the lists of sql.toml, which documents them.
var sqlWords = sync.OnceValue(func() (w struct {
	writes, groups, functions map[string]bool
	schema                    *regexp.Regexp
}) {
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
	w.writes, w.groups, w.functions = set(table.Writes), set(table.Groups), set(table.Functions)
	forms := strings.ReplaceAll(strings.Join(table.Schema, "|"), "NAME", `WORD(?: \. WORD)*`)
	w.schema = regexp.MustCompile(`^(?:` + strings.ReplaceAll(forms, "WORD", `[A-Z_"][A-Z0-9_"]*`) + `)$`)
	return w
})

// callForm matches the functions with effects that PostgreSQL and its extensions call by the
// name of a column, quoted or not: (7).pg_terminate_backend, ('s'::regclass)."nextval", or
// x.lo_import for FROM lower('a') x.
var callForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:PG_|LO_(?:IMPORT|UNLINK|CREATE?)$|DBLINK|CROSSTAB|POSTGRES_FDW_|GIN_CLEAN|BRIN_|(?:TS_STAT|NEXTVAL|SETSEED)$)`)
})

type tokenKind int

const (
	blank  tokenKind = iota
	bare             // a keyword or a plain name
	quoted           // a quoted name; a string in MySQL
	str              // a string
	number           // or a parameter such as $1
	punct
	operator
)

// tokenForms has a group for each kind of token, in order, and matches only tokens that
// mean the same in all databases. Two dashes without a blank are two minus signs in
// MySQL. MySQL executes some comments between /* and */, Oracle obeys some, and nested ones
// end at different places. A backslash escapes a quote only in some databases. A quoted name
// is a string in MySQL, and a backquoted name is a plain word where backquotes do not quote.
// $$ and $a$ quote strings in PostgreSQL. Operators of extensions may do anything.
var tokenForms = sync.OnceValue(func() *regexp.Regexp {
	const char = `\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}` // never accepted
	return regexp.MustCompile(`^(?:` + strings.Join([]string{
		`([ \t\n]|\r\n|--(?: [^` + char + `]*)?(?:\n|$))`,
		`([A-Za-z_][A-Za-z0-9_]*)`,
		"(\"[A-Za-z0-9_ -]+\"|`[A-Za-z0-9_]+`)",
		`('(?:[^'\\` + char + `]|'')*')`,
		`([0-9][0-9.]*|\$[0-9]+)`,
		`([(),;.?])`,
		`(<=|>=|<>|!=|\|\||::|->>|->|[=<>+\-*/%])`,
	}, "|") + `)`)
})

// terminator matches a line that begins with a slash or a dot, and a command after an empty line.
// Clients on the command line end a statement at a line with only a slash (SQLite, Oracle) or a dot
// (Oracle), or at an empty one (Oracle), and execute commands after it. A line with GO, and most
// commands, have a word that writes.
var terminator = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^[ \t]*[/.]|\n[ \t\r]*\n\s*(?:HO(?:ST?)?|SPO(?:OL?)?|STAR?|SCRIPT)\b`)
})

type token struct {
	kind tokenKind
	text string // upper case
}

// tokens is a statement without blanks and comments.
type tokens []token

// tokensOf splits a statement into tokens; ok is false if databases would split it
// differently.
func tokensOf(s string) (all tokens, ok bool) {
	// BigQuery has strings in triple quotes.
	if len(s) > maxStatement || !utf8.ValidString(s) || strings.Contains(s, "'''") || strings.Contains(s, `"""`) || terminator().MatchString(s) {
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
		// E'' and N'' change how a string is decoded, <- may be an operator, and --- a comment.
		text := func(k tokenKind) bool { return k >= bare && k <= number }
		joined := text(before) && text(kind) || before == operator && kind == operator
		if joined || kind != blank && strings.HasPrefix(s, "--") {
			return nil, false
		}
		if kind != blank {
			all = append(all, token{kind, strings.ToUpper(s[:at[1]])})
		}
		before, s = kind, s[at[1]:]
	}
	return all, true
}

// at returns the i-th token if it is a keyword, a plain name or punctuation, else "".
func (t tokens) at(i int) string {
	if i < 0 || i >= len(t) || t[i].kind != bare && t[i].kind != punct {
		return ""
	}
	return t[i].text
}

// isQuery reports whether the tokens from the i-th on are a read-only query. The body of
// a WITH clause is checked token by token like the rest, so isQuery only has to find the
// main SELECT, which is outside all parentheses.
func (t tokens) isQuery(i int) bool {
	selects, depth := false, 0
	for j := range t {
		switch text := t.at(j); {
		case text == "(":
			depth++
		case text == ")" && depth == 0:
			return false
		case text == ")":
			depth--
		case text == "SELECT" && j >= i && depth == 0 && (j == i || t.at(i) == "WITH"):
			selects = j+1 < len(t)
		}
		if !t.harmless(j) {
			return false
		}
	}
	return selects && depth == 0
}

// harmless reports whether the i-th token may appear in a read-only query.
func (t tokens) harmless(i int) bool {
	name := strings.Trim(t[i].text, "\"'`")
	switch before := t.at(i - 1); {
	case name == "PRAGMA_OPTIMIZE": // SQLite writes statistics when it reads this table
		return false
	case t[i].kind == str:
		// DuckDB reads files and URLs named by strings in place of tables. It takes them in many
		// places, but a URL, or a file on another machine, always has two slashes.
		compared := before == "LIKE" || before == "ILIKE" || i > 0 && t[i-1].kind == operator
		return before != "FROM" && before != "JOIN" && (compared || !strings.Contains(name, "//"))
	case t[i].kind == bare && i > 0 && t[i-1].text == "->>": // Snowflake executes a statement after it
		return false
	case name == "PG_CATALOG": // not an alias, of which columns may be calls
		return t.at(i+1) == "."
	case before == "." && t.at(i-2) != "PG_CATALOG" && callForm().MatchString(name):
		return false
	case t.at(i) == ";": // another statement
		return false
	case t.at(i) == "(":
		return t.mayOpen(i)
	case t.at(i) == "REPLACE":
		return t.at(i+1) == "(" // the function, not the statement
	}
	return t[i].kind != bare || !sqlWords().writes[t[i].text]
}

// mayOpen reports whether the parenthesis at i only groups, or contains the arguments of
// a builtin.
func (t tokens) mayOpen(i int) bool {
	before, earlier, next := t.at(i-1), t.at(i-2), t.at(i+1)
	switch {
	case i > 0 && t[i-1].kind == operator:
		return true
	case before == "OVER", before == "FILTER":
		return earlier == ")"
	case before == "AS":
		return next == "SELECT" || next == "WITH" || next == "VALUES"
	}
	known := sqlWords().groups[before] || sqlWords().functions[before]
	return before == "(" || before == "," || known && earlier != "."
}

// isSchemaQuery reports whether the statement matches one of the forms that show the
// schema.
func (t tokens) isSchemaQuery() bool {
	text := make([]string, len(t))
	for i, tok := range t {
		switch tok.kind {
		case quoted:
			text[i] = `""`
		case str:
			text[i] = "STRING"
		case bare:
			if i > 0 && tok.text != "CREATE" && sqlWords().writes[tok.text] {
				return false
			}
			text[i] = tok.text
		default:
			text[i] = tok.text
		}
	}
	return sqlWords().schema.MatchString(strings.Join(text, " "))
}
