package secret

import "strings"

var (
	// assignment matches a name and the sign after it: name=value, "name": "value",
	// --name value, <name>value</name>.
	assignment = lazy("(-{0,2}[\\p{Latin}_][\\w.\\p{Latin}-]{0,63})" +
		"(\\\\{0,3}[\"'`]?[\\])]?[ \\t]{0,8}(?:=>|==?|:=|:)[ \\t]{0,8}|>|[ \\t]{1,8})")
	quote   = lazy("^\\\\{0,3}[\"'`]")
	line    = lazy("^[^\\r\\n\"'`\\\\<]*")
	tail    = lazy("^[^\r\n\"'`<]*") // the rest of a long value
	element = lazy(`^[^<]*`)
	plain   = lazy("^[^\\s\"'`&;<\\\\]*")
	program = lazy(`^(?:;|[,.)\]}]+(?:\s|$))`) // goes on after an expression
	lineEnd = lazy("^[ \\t,;)\\]}]*(?:[\\r\\n\"'`\\\\]|$)")
	// wholeArgument matches what may precede a name if the rest of the argument is its
	// value.
	wholeArgument = lazy(`^-{0,2}(?:[A-Za-z][A-Za-z0-9_.-]*[=:] ?-{0,2})*$`)
	option        = lazy(`^(?:-[A-Za-z]|--[a-z][a-z0-9-]*(?:=.*)?)$`)
	emoji         = lazy(`^(?:(?:old_|closed_lock_with_)?key|(?:fortune_)?cookie|secret)$`)
	notValue      = lazy(`^[-[{|]|[()\[{]`) // of a program
)

const (
	maxValue  = 4096 // bytes that are examined; a longer value ends with its line, or at a quote
	maxJudged = 128  // bytes by which a value is judged
)

// assigned returns the values in a text that are assigned to names of secrets.
func assigned(s string, strict bool) (found []Span) {
	if !strings.ContainsAny(s, "=:>-_") { // no name with a sign, and no option
		return nil
	}
	end := 0 // of the last value
	for _, at := range assignment().FindAllStringSubmatchIndex(s, -1) {
		name, sign, from := s[at[2]:at[3]], s[at[4]:at[5]], at[1]
		limit := min(len(s), from+maxValue)
		before, rest := s[:at[2]], s[from:limit]
		if at[0] < end || !isAssignment(before, name, sign, rest) {
			continue
		}
		blank := strings.TrimSpace(sign) == ""
		k := classify(name)
		// aws configure set aws_secret_access_key …: such a word occurs in no sentence
		if blank && name[0] != '-' {
			if k.when != "always" || !strings.Contains(name, "_") {
				continue
			}
			k = kind{"secret", "likely"}
		}
		if k.when == "" || k.when == "never" || k.when == "strict" && !strict {
			continue
		}
		opening, value := valueOf(rest, sign, k)
		if strict && !blank && wholeArgument().MatchString(before) {
			opening, value = "", s[from:]
		}
		from += len(opening)
		after, judged := s[from+len(value):], value[:min(len(value), maxJudged)]
		if sign == "]=" && !strict && program().MatchString(after) { // d[token]=form.t1, x
			continue
		}
		place := place{
			quoted: opening != "",
			direct: blank || sign == "=" || sign == ">" && (k.when == "always" || strings.HasPrefix(after, "</")),
			last:   lineEnd().MatchString(after) && (k.when == "always" || strings.Contains(sign, ":")),
		}
		secret := k.isSecret(judged) && k.inText(judged, place) && (!blank || !option().MatchString(judged))
		if secret || strict && !harmless(judged) {
			end = from + len(value)
			if end == limit {
				end += len(tail().FindString(s[end:]))
			}
			found = append(found, Span{from, end, name, k.rule})
		}
	}
	return found
}

// isAssignment reports whether a sign between two parts of a text assigns a value.
func isAssignment(before, name, sign, rest string) bool {
	switch {
	case strings.HasSuffix(before, "[") && sign != "=" && sign != "]=", // of a mark, s[key:end], m[token] = x
		strings.HasPrefix(rest, "//") && strings.Contains(sign, ":"), strings.HasPrefix(rest, ":"), // ://, ::, =:parameter
		strings.HasPrefix(sign, ":") && strings.HasSuffix(before, ":") &&
			(sign != ": " || strings.HasSuffix(before, "::") || emoji().MatchString(name)), // but not :password: x, YAML of Ruby
		sign == ">" && !strings.HasSuffix(before, "<"),
		strings.Contains(sign, "=>") && !quote().MatchString(rest),                         // token => token.value
		quote().MatchString(rest) && strings.HasSuffix(before, rest[:1]) && len(sign) == 1: // "PWD=" + x
		return false
	}
	return true
}

// valueOf returns the value at the beginning of a text, after a sign, and the quote
// before it.
func valueOf(rest, sign string, k kind) (opening, value string) {
	opening = quote().FindString(rest)
	switch {
	case opening != "":
		value = rest[len(opening):]
		return opening, value[:closing(value, opening)]
	case sign == ">":
		return "", element().FindString(rest)
	case k.when == "header":
		return "", line().FindString(rest)
	}
	if value = plain().FindString(rest); !strings.Contains(value, "${") {
		value = strings.TrimRight(value, ",.)]}")
	}
	return "", value
}

// place is where in a text a value is.
type place struct {
	quoted bool
	direct bool // directly after its name
	last   bool // at the end of its line
}

// inText reports whether a value, which is a secret in other places, is one in a text,
// which may be a sentence or a program.
func (k kind) inText(s string, at place) bool {
	member := s[strings.LastIndexByte(s, '.')+1:]
	isNamed := (member != s || k.when != "always") && classify(member).when != "" // token=token, secret=app.secret
	switch {
	case k.when == "header":
		return strings.ContainsAny(s, "0123456789=") || len(strings.Fields(s)) == 2
	case at.quoted:
		return true
	case notValue().MatchString(s) && s[0] != '[' || rules().types.MatchString(s) || isNamed && !mixed(s):
		return false
	case at.direct || k.when == "likely" || k.when == "digits":
		return true
	}
	return mixed(s) || at.last || k.when == "always" && hasDigits().MatchString(s)
}

// closing returns the offset of the closing quote, or the length of the text. A quote
// with more backslashes before it is part of the text.
func closing(s, quote string) int {
	for at := 0; ; at++ {
		n := strings.Index(s[at:], quote)
		if n < 0 {
			return len(s)
		}
		if at += n; at == 0 || s[at-1] != '\\' {
			return at
		}
	}
}

// isOption reports whether an argument is an option with its value in the next argument.
func isOption(s string) bool { return strings.HasPrefix(s, "-") && !strings.ContainsAny(s, "=: ") }

// Find returns the possible secrets in an argument of a command or in a URL, ordered and
// disjoint. before is the preceding argument. In doubt a value is a secret, unlike in
// [Text]: the caller only moves it to a place where it works as well. A character of the
// plane 15, which is for private use, represents a part that is not secret.
func Find(s, before string) []Span {
	if k := classify(before).when; k != "" && k != "never" && isOption(before) && !option().MatchString(s) && !harmless(s) {
		return []Span{{To: len(s), Name: before}}
	}
	return find(s, true)
}

var noSecret = lazy(`^\s*(?:(?i)true|false|yes|no|on|off|none|null|[01]|` +
	`(?:~|\.{0,2}/|[A-Za-z]:[\\/])[^\s=&;,]*\.[A-Za-z]{2,5})?\s*$`)

// harmless reports whether a value is not secret in spite of its name: it is empty, a
// boolean, the path of a file, or only a variable.
func harmless(value string) bool {
	return noSecret().MatchString(value) || placeholder().MatchString(value)
}
