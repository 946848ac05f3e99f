package secret

import "strings"

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
	stop := min(len(a.s), v.from+longestValue)
	header := k == authorization || k == cookie
	switch {
	case v.quote != "":
		v.end = a.search(v.from, stop, v.quote)
	case header:
		v.end = a.until(v.from, stop, "\r\n\"'`\\<", &a.lines)
	case a.s[i] == '>':
		v.end = a.until(v.from, stop, "<", &a.tags)
	default: // what is behind a span is another value
		v.end = a.until(v.from, max(v.from, min(stop, a.nearest())), " \t\r\n\"'`&;<\\", &a.words)
	}
	v.to = v.end
	if near := a.nearest(); near < v.end {
		v.to, v.spans = max(near, v.from), true
	}
	if v.quote == "" && !header {
		v.to = v.from + len(strings.TrimRight(a.s[v.from:v.to], ",.)]}"))
		v.end = v.to
	}
	return v
}

// nearest is where the nearest span begins; the end of the text if there is none.
func (a *assigner) nearest() int {
	if n := len(a.right); n > 0 {
		return a.right[n-1].from
	}
	return len(a.s)
}

// until is where the first of some characters stands behind from, outside of spans;
// stop if there is none. seen is a part that has none of them, so that none is
// looked at for each of many assignments before it.
func (a *assigner) until(from, stop int, chars string, seen *run) int {
	begin := from
	for next := len(a.right) - 1; from < stop; next-- {
		to := stop
		if next >= 0 {
			to = max(from, min(to, a.right[next].from))
		}
		for from < to {
			if seen.from <= from && from < seen.to {
				from = min(seen.to, to)
				continue
			}
			part := a.s[from:to]
			if from < seen.from {
				part = part[:min(len(part), seen.from-from)]
			}
			if n := strings.IndexAny(part, chars); n >= 0 {
				a.saw(seen, begin, from+n)
				return from + n
			}
			from += len(part)
		}
		if to == stop {
			break
		}
		from = a.right[next].to
	}
	a.saw(seen, begin, stop)
	return max(stop, from)
}

// saw remembers a part without spans.
func (a *assigner) saw(seen *run, from, to int) {
	if to = min(to, a.nearest()); from < to {
		*seen = run{from, to}
	}
}

// search is where the quote is closed that was opened before from; stop if it is
// not.
func (a *assigner) search(from, stop int, quote string) int {
	for next := len(a.right) - 1; from < stop; next-- {
		to := stop
		if next >= 0 {
			to = max(from, min(to, a.right[next].from))
		}
		if n := closing(a.s[from:to], quote); n >= 0 {
			return from + n
		}
		if to == stop {
			break
		}
		from = a.right[next].to
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
