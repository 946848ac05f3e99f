package valuemodel

import "slices"

// sqlReads says whether an SQL statement certainly changes nothing: a single
// SELECT, with or without WITH, its EXPLAIN, or a look at the schema. Databases
// differ, so what any of PostgreSQL, MySQL, SQLite, SQL Server and their like
// could take for something else is refused: a backslash in a string, a comment
// that may run, a function that is not a listed builtin.
//
// What a statement cannot show is taken to read as well: functions behind views,
// operators, casts and virtual columns, and Oracle's calls without parentheses.
func sqlReads(statement string) bool {
	tokens, ok := sqlTokens(statement)
	if ok && len(tokens) > 0 && tokens[len(tokens)-1].is(";") {
		tokens = tokens[:len(tokens)-1]
	}
	if !ok || len(tokens) == 0 {
		return false
	}
	t := sqlParse{tokens}
	switch first := tokens[0]; {
	case first.is("SELECT"), first.is("WITH"):
		return t.query(0)
	case first.is("EXPLAIN"):
		at := 1
		if t.at(1).is("QUERY") && t.at(2).is("PLAN") {
			at = 3
		}
		return t.query(at)
	case first.is("SHOW"):
		return t.show()
	case first.is("DESCRIBE"), first.is("DESC"):
		return t.name(1, len(tokens))
	case first.is("PRAGMA"):
		return t.pragma()
	}
	return false
}

// sqlParse is a statement without its trailing semicolon.
type sqlParse struct{ tokens []sqlToken }

// at gives the zero token, which is nothing, outside the statement.
func (t sqlParse) at(i int) sqlToken {
	if i < 0 || i >= len(t.tokens) {
		return sqlToken{}
	}
	return t.tokens[i]
}

// query says whether there is a reading query from the i-th token to the end.
func (t sqlParse) query(i int) bool {
	if t.at(i).is("WITH") {
		i = t.skipCTEs(i + 1)
	}
	if !t.at(i).is("SELECT") || i+1 == len(t.tokens) {
		return false
	}
	for j := range t.tokens {
		if !t.harmless(j) {
			return false
		}
	}
	return true
}

// skipCTEs gives the index behind name AS (…), name AS (…).
func (t sqlParse) skipCTEs(i int) int {
	if t.at(i).is("RECURSIVE") {
		i++
	}
	for {
		if !t.at(i).named() || !t.at(i+1).is("AS") {
			return -1
		}
		i += 2
		if t.at(i).is("NOT") {
			i++
		}
		if t.at(i).is("MATERIALIZED") {
			i++
		}
		if i = t.closing(i); !t.at(i).is(",") {
			return i
		}
		i++
	}
}

// closing gives the index behind the parenthesis that closes the one at i, or -1.
func (t sqlParse) closing(i int) int {
	if !t.at(i).is("(") {
		return -1
	}
	for depth := 0; i < len(t.tokens); i++ {
		switch {
		case t.tokens[i].is("("):
			depth++
		case t.tokens[i].is(")"):
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// harmless says whether the i-th token of a query is.
func (t sqlParse) harmless(i int) bool {
	switch tok := t.tokens[i]; {
	case tok.is(";"):
		return false // another statement
	case tok.is("("):
		return t.opens(i)
	case tok.is("REPLACE"):
		return t.at(i + 1).is("(") // the function, not the statement
	case tok.kind == sqlWord:
		return !sqlWrites(tok.text)
	case tok.kind == sqlString:
		// DuckDB reads files and addresses called so.
		return !t.at(i-1).is("FROM") && !t.at(i-1).is("JOIN")
	}
	return true
}

// opens says whether a parenthesis may follow what is in front of it: it groups,
// or holds the arguments of a builtin.
func (t sqlParse) opens(i int) bool {
	before, earlier := t.at(i-1), t.at(i-2)
	switch before.kind {
	case sqlQuoted, sqlString, sqlNumber:
		return false
	case sqlPunct:
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
	return !earlier.is(".") && (sqlGroups(before.text) || sqlPure(before.text))
}

// reading reports whether the i-th token begins what AS may name: a query or a
// window.
func (t sqlParse) reading(i int) bool {
	return slices.ContainsFunc([]string{"SELECT", "WITH", "VALUES", "PARTITION", "ORDER"}, t.at(i).is)
}

// name reports whether the tokens from i to end are a name such as public.users.
func (t sqlParse) name(i, end int) bool {
	for ; i < end; i += 2 {
		if !t.at(i).named() {
			return false
		}
		if i+1 == end {
			return true
		}
		if !t.at(i + 1).is(".") {
			return false
		}
	}
	return false
}

// show knows MySQL's lists and PostgreSQL's settings.
func (t sqlParse) show() bool {
	if t.at(1).is("CREATE") {
		return (t.at(2).is("TABLE") || t.at(2).is("VIEW")) && t.name(3, len(t.tokens))
	}
	i := 1
	if t.at(i).is("FULL") {
		i++
	}
	switch t.at(i).text {
	case "TABLES", "DATABASES", "SCHEMAS", "COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS", "VARIABLES", "ENGINES",
		"ALL", "SEARCH_PATH", "SERVER_VERSION", "TIMEZONE":
	default:
		return false
	}
	for j := i + 1; j < len(t.tokens); j++ {
		tok := t.tokens[j]
		if tok.kind == sqlNumber || tok.kind == sqlPunct && !tok.is(".") || tok.kind == sqlWord && sqlWrites(tok.text) {
			return false
		}
	}
	return t.at(i).kind == sqlWord
}

// pragma knows those of SQLite that tell of the schema, and those that set
// something if they are given a value and read it if not.
func (t sqlParse) pragma() bool {
	i := 1
	if t.at(2).is(".") {
		i = 3
	}
	end := len(t.tokens)
	switch t.at(i).text {
	case "TABLE_INFO", "TABLE_XINFO", "TABLE_LIST", "INDEX_LIST", "INDEX_INFO", "INDEX_XINFO", "FOREIGN_KEY_LIST":
		if end == i+4 && t.at(i+1).is("(") && t.at(i+3).is(")") {
			return t.at(i+2).named() || t.at(i+2).kind == sqlString
		}
		return end == i+1
	case "DATABASE_LIST", "COLLATION_LIST", "COMPILE_OPTIONS", "FUNCTION_LIST", "USER_VERSION", "SCHEMA_VERSION",
		"PAGE_COUNT", "PAGE_SIZE", "ENCODING", "FOREIGN_KEYS", "JOURNAL_MODE":
		return end == i+1
	}
	return false
}
