package secret

import (
	"regexp"
	"strings"
)

// assigner finds values assigned to names of secrets: name=value, "name": "value", --name
// value, <name>value</name>, and options of one letter. Secrets already found by shape are
// replaced by [filler] in its text.
type assigner struct {
	s      string
	strict bool // every value with such a name is a secret
	floor  int  // end of the last value; no name extends before it
}

// filler replaces the bytes of secrets already found, or represents the value of a variable.
const filler = "\x01"

func (a *assigner) find() (found []span) {
	for i := 0; i < len(a.s); i++ {
		var p span
		switch a.s[i] {
		case '=', ':', '>', ' ':
			p = a.assignment(i)
		case '-':
			p = a.attached(i)
		}
		if p.to > 0 {
			found = append(found, p)
			a.floor, i = p.to, p.to-1
		}
	}
	return found
}

// assignment returns the value of the assignment with its sign at i, if it is a secret.
func (a *assigner) assignment(i int) span {
	name, from := a.name(i)
	if name == "" {
		return span{}
	}
	k := a.kind(name, from, i)
	if k == plain {
		return span{}
	}
	v := a.value(i, k, from)
	if v.text == "" || !a.secret(v, k, i) {
		return span{}
	}
	return v.span(k, name)
}

// name returns the name before the sign at i and its start, or "".
func (a *assigner) name(i int) (string, int) {
	to := i
	if a.s[i] == '=' || a.s[i] == ':' {
		for to > a.floor && i-to < 6 && strings.IndexByte(" \t\"'`\\])", a.s[to-1]) >= 0 {
			to--
		}
	}
	from := to
	for from > a.floor && to-from < maxName && nameByte(a.s[from-1]) {
		from--
	}
	if from == to {
		return "", 0
	}
	before := byte(0)
	if from > 0 {
		before = a.s[from-1]
	}
	switch a.s[i] {
	case '>':
		if before != '<' {
			return "", 0
		}
	case ':':
		if strings.HasPrefix(a.s[i:], "://") || strings.HasPrefix(a.s[i:], "::") || before == ':' {
			return "", 0
		}
	}
	if to == i && strings.IndexByte("\"'`", before) >= 0 && i+1 < len(a.s) && a.s[i+1] == before {
		return "", 0 // "PWD=" + x
	}
	return a.s[from:to], from
}

func nameByte(c byte) bool { return letter(c) || digit(c) || c == '_' || c == '-' || c == '.' }

// kind classifies the name that begins at from, with its sign at i.
func (a *assigner) kind(name string, from, i int) kind {
	switch {
	case name == "--user" || name == "--proxy-user":
		return userPassword
	case a.s[i] != ' ' || strings.HasPrefix(name, "--"):
		return classify(name)
	case len(name) == 2 && name[0] == '-':
		return flagged(a.s[:from], name[1], false)
	case name[0] == '-':
		return classify(name)
	}
	if k := classify(name); k.insists() && strings.Contains(name, "_") {
		return kind{"secret", likely} // aws configure set aws_secret_access_key …: such a word occurs in no sentence
	}
	return plain
}

// value is the value of an assignment.
type value struct {
	text     string // its first maxJudged bytes
	from, to int
	quoted   bool
	spaced   bool // white space precedes it
}

func (v value) span(k kind, name string) span {
	if k == userPassword {
		v.from += strings.IndexByte(v.text, ':') + 1
	}
	return span{v.from, v.to, k.rule, name}
}

const (
	maxValue  = 4096 // bytes; a longer value ends there
	maxJudged = 128  // bytes by which a value is judged
	maxSpace  = 8    // bytes of white space before a value
)

// value returns the value that the sign at i assigns to a name of kind k that begins at name.
func (a *assigner) value(i int, k kind, name int) value {
	from := i + 1
	for from < len(a.s) && from < i+3 && (a.s[from] == '=' || a.s[from] == '>') && a.s[i] != '>' {
		from++
	}
	v := value{spaced: a.s[i] == ' '}
	for n := 0; from < len(a.s) && n < maxSpace && (a.s[from] == ' ' || a.s[from] == '\t'); n++ {
		from++
		v.spaced = true
	}
	quote := from
	for quote < len(a.s) && quote < from+3 && a.s[quote] == '\\' {
		quote++
	}
	v.quoted = quote < len(a.s) && strings.IndexByte("\"'`", a.s[quote]) >= 0
	end := func(chars string) int { return strings.IndexAny(a.s[from:min(len(a.s), from+maxValue)], chars) }
	n := -1
	switch {
	case a.strict && a.s[i] != ' ' && leads.MatchString(a.s[:name]):
		v.quoted = false // --name=value as a single argument: the rest is the value
	case v.quoted:
		mark := a.s[from : quote+1]
		from = quote + 1
		n = closing(a.s[from:min(len(a.s), from+maxValue)], mark)
	case k.how == header:
		n = end("\r\n\"'`\\<")
	case a.s[i] == '>':
		n = end("<")
	default:
		if n = end(" \t\r\n\"'`&;<\\"); n < 0 {
			n = min(len(a.s), from+maxValue) - from
		}
		n = len(strings.TrimRight(a.s[from:from+n], ",.)]}"))
	}
	if n < 0 {
		n = min(len(a.s), from+maxValue) - from
	}
	v.from, v.to = from, from+n
	v.text = a.s[from:min(v.to, from+maxJudged)]
	return v
}

// leads matches the text that may precede the name in an argument which is one assignment:
// --env=.
var leads = regexp.MustCompile(`^-{0,2}(?:[A-Za-z][A-Za-z0-9_.-]*[=:] ?-{0,2})*$`)

// closing returns the offset of the closing quote, or -1. A quote with more backslashes before
// it is part of the text.
func closing(s, quote string) int {
	for at := 0; ; at++ {
		n := strings.Index(s[at:], quote)
		if n < 0 {
			return -1
		}
		if at += n; at == 0 || s[at-1] != '\\' {
			return at
		}
	}
}

// secret reports whether the value of a name of kind k is a secret. A value without quotes may
// also be part of a sentence or a program.
func (a *assigner) secret(v value, k kind, i int) bool {
	s := v.text
	switch {
	case a.strict && k != userPassword:
		return !harmless(s)
	case k.rule == "authorization" && k.how == header:
		return !isPlaceholder(s) && (strings.ContainsAny(s, digits+"="+filler) || schemed(s))
	case a.s[i] == '>':
		return k.value(s) && (k.insists() || strings.HasPrefix(a.s[v.to:], "</"))
	case v.quoted || k.rule == "cookie" || k == userPassword:
		return k.value(s)
	case !k.value(s) || s[0] == '-' || strings.IndexByte("[{|", s[0]) >= 0 || isCode(s):
		return false
	case !k.insists() && (classify(s) == k || strings.ContainsAny(s, "[{")):
		return false // token=token, token=tokens[0]
	case !k.strong() || a.s[i] == ' ' || !v.spaced && a.s[i] == '=':
		return true
	case !k.insists():
		return v.spaced && k.how != count && a.s[i] == ':' && a.lineEnds(v.to) || mixed(s)
	}
	return strings.ContainsAny(s, digits) || a.last(v.to)
}

// isCode reports whether a text is from a program or a schema: a call, a type, or a member
// named like a secret.
func isCode(s string) bool {
	n := strings.LastIndexByte(s, '.')
	return strings.ContainsAny(s, "()") || among("types", s) || n > 0 && classify(s[n+1:]) != plain
}

// schemed reports whether a text is the name of an authentication scheme and a word.
func schemed(s string) bool {
	scheme, word, _ := strings.Cut(strings.TrimSpace(s), " ")
	return word != "" && !strings.Contains(word, " ") && among("ways", scheme)
}

// lineEnds reports whether a line, or the quoted text, ends at i.
func (a *assigner) lineEnds(i int) bool {
	return i == len(a.s) || strings.IndexByte("\r\n\"'`\\", a.s[i]) >= 0
}

// last reports whether only punctuation follows on the line from i on.
func (a *assigner) last(i int) bool {
	line := a.s[i:min(len(a.s), i+maxSpace)]
	if n := strings.IndexAny(line, "\r\n"); n >= 0 {
		line = line[:n]
	}
	return strings.Trim(line, " \t,;)]}\"'`\\") == ""
}

const maxCommand = 160 // bytes before an option that are searched for its program

// flagged returns the kind of an option of one letter after a command. The program need not be
// the first word: sudo, docker exec and ssh may precede it.
func flagged(command string, letter byte, joined bool) kind {
	if letter == 'u' || letter == 'U' {
		return userPassword
	}
	if strings.IndexByte("apPwk", letter) < 0 {
		return plain
	}
	command = command[max(0, len(command)-maxCommand):]
	command = command[strings.LastIndexAny(command, "\n;|&")+1:]
	for word := range strings.FieldsSeq(command) {
		word = strings.TrimRight(word, "\"'`")
		if f := names().flags[word[strings.LastIndexAny(word, "/=\"'`($[")+1:]]; f.letter == letter && (joined || !f.joined) {
			return f.kind
		}
	}
	return plain
}

// attached returns the value joined to an option of one letter at i: mysql -phunter2.
func (a *assigner) attached(i int) span {
	if i+2 >= len(a.s) || i > 0 && strings.IndexByte(" \t\n\"'`", a.s[i-1]) < 0 || strings.IndexByte(" \t\r\n", a.s[i+2]) >= 0 {
		return span{}
	}
	k := flagged(a.s[:i], a.s[i+1], true)
	if k == plain {
		return span{}
	}
	v := a.value(i+1, k, i)
	if v.spaced || !k.value(v.text) {
		return span{}
	}
	return v.span(k, "")
}
