package secret

import "strings"

// assigner finds the secrets of a text that are called so: name=value, "name":
// "value", --name value, <name>value</name>. What has a shape is found already, and is
// not looked into: a text with marks is decided on as the one with the secrets was.
type assigner struct {
	s     string
	spans []span // with shapes, in order
	next  int    // the first of them that does not end before the place that is looked at
	found []span
	floor int // where what was found or is a span ends: no name reaches back over it
}

// named adds the secrets that are called so to those that have a shape.
func named(s string, spans []span) []span {
	a := assigner{s: s, spans: spans}
	for i := 0; i < len(s); i++ {
		for a.next < len(spans) && spans[a.next].to <= i {
			a.floor = max(a.floor, spans[a.next].to)
			a.next++
		}
		if a.next < len(spans) && spans[a.next].from <= i {
			i = spans[a.next].to - 1
			continue
		}
		var p span
		switch s[i] {
		case '=', ':', '>', ' ':
			p = a.assignment(i)
		case '-':
			p = a.attached(i)
		}
		if p.to > 0 {
			a.found = append(a.found, p)
			a.floor = p.to
			i = p.to - 1
		}
	}
	return apart(append(a.found, spans...))
}

// assignment is the value of the assignment whose sign stands at i, if it is a secret.
func (a *assigner) assignment(i int) span {
	k := a.name(i)
	if k == plain {
		return span{}
	}
	v := a.value(i, k)
	if v.from == v.to || !a.secret(v, k, i) {
		return span{}
	}
	if k == userPassword {
		v.from += strings.IndexByte(a.s[v.from:v.to], ':') + 1
	}
	return span{v.from, v.end, kinds[k].rule}
}

// name classifies the name before the sign at i.
func (a *assigner) name(i int) kind {
	to := i
	if a.s[i] != '>' && a.s[i] != ' ' {
		for to > a.floor && i-to < 6 && strings.IndexByte(" \t\"'`\\])", a.s[to-1]) >= 0 {
			to--
		}
	}
	from := to
	for from > a.floor && to-from < longestName && nameByte(a.s[from-1]) {
		from--
	}
	if from == to {
		return plain
	}
	before := byte(0)
	if from > 0 {
		before = a.s[from-1]
	}
	if to == i && strings.IndexByte("\"'`", before) >= 0 && i+1 < len(a.s) && a.s[i+1] == before {
		return plain // "PWD=" + x
	}
	switch a.s[i] {
	case '>':
		if before != '<' {
			return plain
		}
	case ' ':
		return a.option(from, to)
	case ':':
		if strings.HasPrefix(a.s[i:], "://") || strings.HasPrefix(a.s[i:], "::") || before == ':' || i > 0 && a.s[i-1] == ':' {
			return plain
		}
	}
	return long(a.s[from:to])
}

func nameByte(c byte) bool {
	return letter(c) || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// value is what an assignment in a text assigns.
type value struct {
	from, to int    // what it is judged by: up to the first span in it
	end      int    // of all of it
	quote    string // that it stands in, with the backslashes before it; "": none
	spaced   bool   // there is white space before it
	spans    bool   // there are spans in it
}

const (
	longestValue = 4096 // bytes in which the end of a value is looked for; a longer one ends there
	judged       = 128  // bytes that a value is judged by
	mostSpace    = 8
)

// value finds what the sign at i assigns to a name of kind k.
func (a *assigner) value(i int, k kind) value {
	from := i + 1
	for from < len(a.s) && from < i+3 && (a.s[from] == '=' || a.s[from] == '>') && a.s[i] != '>' {
		from++
	}
	v := value{spaced: a.s[i] == ' '}
	for n := 0; from < len(a.s) && n < mostSpace && (a.s[from] == ' ' || a.s[from] == '\t'); n++ {
		from++
		v.spaced = true
	}
	quoted := from
	for quoted < len(a.s) && quoted < from+3 && a.s[quoted] == '\\' {
		quoted++
	}
	v.from = from
	if quoted < len(a.s) && strings.IndexByte("\"'`", a.s[quoted]) >= 0 {
		v.quote, v.from = a.s[from:quoted+1], quoted+1
	}
	header := k == authorization || k == cookie
	ends := func(chars string) func(string) int {
		return func(part string) int { return strings.IndexAny(part, chars) }
	}
	switch {
	case v.quote != "":
		v.end = a.until(v.from, func(part string) int { return closing(part, v.quote) })
	case header:
		v.end = a.until(v.from, ends("\r\n\"'`\\<"))
	case a.s[i] == '>':
		v.end = a.until(v.from, ends("<"))
	default: // what is behind a span is another value
		v.end = min(a.until(v.from, ends(" \t\r\n\"'`&;<\\")), max(v.from, a.nearest(v.from)))
	}
	v.to = v.end
	if near := a.nearest(v.from); near < v.end {
		v.to, v.spans = max(near, v.from), true
	}
	if v.quote == "" && !header {
		v.to = v.from + len(strings.TrimRight(a.s[v.from:v.to], ",.)]}"))
		v.end = v.to
	}
	return v
}

// nearest is where the first span begins that ends behind a place; the end of the text if
// there is none.
func (a *assigner) nearest(at int) int {
	for _, p := range a.spans[a.next:] {
		if p.to > at {
			return p.from
		}
	}
	return len(a.s)
}

// until is where a value ends that begins at from: at what end finds outside of spans.
func (a *assigner) until(from int, end func(part string) int) int {
	stop := min(len(a.s), from+longestValue)
	for next := a.next; from < stop; next++ {
		to := stop
		if next < len(a.spans) {
			to = min(to, max(from, a.spans[next].from))
		}
		if n := end(a.s[from:to]); n >= 0 {
			return from + n
		}
		if to == stop {
			break
		}
		from = max(from, a.spans[next].to)
	}
	return max(stop, from)
}

// closing is where a text ends that was opened by a quote; -1: it does not. Within
// a quoted text a quote stands behind a backslash, \", and one within that behind
// three: what is quoted once more has twice as many and one.
func closing(s, quote string) int {
	level := len(quote) - 1
	for at := 0; ; at++ {
		n := strings.IndexByte(s[at:], quote[level])
		if n < 0 {
			return -1
		}
		at += n
		slashes := 0
		for at-slashes > 0 && s[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%(2*level+2) == level {
			return at - level
		}
	}
}

// secret reports whether the value of a name of kind k is one. Where nothing
// encloses it, it may also be the rest of a sentence, or of a program.
func (a *assigner) secret(v value, k kind, i int) bool {
	s := a.s[v.from:min(v.to, v.from+judged)]
	switch {
	case k == authorization:
		return v.spans || strings.ContainsAny(s, "0123456789=") || schemed(s)
	case a.s[i] == '>':
		return k.value(s) && (kinds[k].sure || strings.HasPrefix(a.s[v.end:], "</"))
	case v.quote != "" || k == cookie || k == userPassword || k == said:
		return k.value(s)
	case !k.value(s) || s[0] == '-' || strings.IndexByte("[({|", s[0]) >= 0 || coded(s):
		return false
	case !kinds[k].sure && (classify(s) == k || strings.ContainsAny(s, "[{")):
		return false // token=token, token=tokens[0]
	case !k.strong():
		return true
	case a.s[i] == ' ' || !v.spaced && a.s[i] == '=':
		return true
	case kinds[k].loud:
		return v.spaced && k != tokens && a.s[i] == ':' && a.ends(v.end) || mixed(s) && (!strings.Contains(s, "/") || dense(s))
	}
	return strings.ContainsAny(s, digits) || a.last(v.end)
}

// schemed reports whether a text is the name of a scheme and a word.
func schemed(s string) bool {
	scheme, word, _ := strings.Cut(strings.TrimSpace(s), " ")
	return word != "" && !strings.Contains(word, " ") && among(ways, scheme)
}

// ends reports whether a line or what quotes it ends at i.
func (a *assigner) ends(i int) bool {
	return i == len(a.s) || strings.IndexByte("\r\n\"'`\\", a.s[i]) >= 0
}

// last reports whether nothing but punctuation stands on the line from i on.
func (a *assigner) last(i int) bool {
	line := a.s[i:min(len(a.s), i+mostSpace)]
	if n := strings.IndexAny(line, "\r\n"); n >= 0 {
		line = line[:n]
	}
	return strings.Trim(line, " \t,;)]}\"'`\\") == ""
}

// coded reports whether a text is an expression: a call, a type, or the same name
// somewhere else.
func coded(s string) bool {
	if strings.ContainsAny(s, "()") || among(types, s) {
		return true
	}
	n := strings.LastIndexByte(s, '.')
	return n > 0 && classify(s[n+1:]) != plain
}
