package clients

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mcpschedd/internal/secret"
)

// span is a part of a string that may be a secret.
type span struct {
	from, to int
	label    string // what its variable would be called; "": as the server
}

// filledIn stands in a string for what a variable will put there.
const filledIn = "\x01"

// hide puts what may be a secret in an argument, a URL, a command or a path into
// variables. In doubt a harmless value goes into the file of variables too, where it works
// as well; the other mistake would put a secret where it is shown. before is the argument
// before it.
func (e *entry) hide(t text, before string) text {
	for i, p := range t { // a default that looks like a secret is the value from now on
		if p.variable != "" && p.literal != "" && (tellsSecret(p.variable) && !harmless(p.literal) || len(spans(p.literal, before)) > 0) {
			t[i] = e.defaulted(p)
		}
	}
	return e.withhold(t, spans(t.filled(filledIn), before))
}

// value puts every literal part of an environment variable or a header into variables, but
// for the word that says what kind of credentials follow.
func (e *entry) value(t text, label string) text {
	s := t.filled(filledIn)
	for i, p := range t {
		if p.variable != "" && p.literal != "" && p.variable != workspace && !scheme(p.literal) {
			t[i] = e.defaulted(p)
		}
	}
	return e.withhold(t, []span{{0, len(s), label}})
}

// defaulted is a variable whose default has become its value.
func (e *entry) defaulted(p piece) piece {
	for _, v := range e.server.Values {
		if v.Name == p.variable && v.Value != p.literal {
			return p
		}
	}
	e.add(p.variable, p.literal)
	e.note("${" + p.variable + "} has its default in the file of variables, which stands before the environment: change it there")
	return piece{variable: p.variable}
}

// withhold replaces the literal parts of a text that lie in spans.
func (e *entry) withhold(t text, all []span) text {
	if len(all) == 0 {
		return t
	}
	var out text
	at := 0
	for _, p := range t {
		if p.variable != "" {
			out = append(out, p)
			at += len(filledIn)
			continue
		}
		done := 0
		for _, s := range all {
			from, to := max(s.from-at, done), min(s.to-at, len(p.literal))
			if from >= to {
				continue
			}
			hidden := p.literal[from:to]
			if scheme(hidden) || len(t) > 1 && strings.Trim(hidden, " :,;/&?=\"'@") == "" {
				continue
			}
			if from > done {
				out = append(out, piece{literal: p.literal[done:from]})
			}
			out = append(out, piece{variable: e.hidden(s.label, hidden)})
			done = to
		}
		if done < len(p.literal) {
			out = append(out, piece{literal: p.literal[done:]})
		}
		at += len(p.literal)
	}
	return out
}

// hidden is the variable that stands for a value: of equal ones of a server the same.
func (e *entry) hidden(label, value string) string {
	if label == "" {
		label = e.label + "_SECRET"
	}
	for n := 1; ; n++ {
		name := label
		if n > 1 {
			name = label + "_" + itoa(n)
		}
		i := slices.IndexFunc(e.server.Values, func(v Value) bool { return v.Name == name })
		switch {
		case i >= 0 && e.server.Values[i].Value == value:
			return name
		case i < 0 && !e.means(name):
			e.add(name, value)
			return name
		}
	}
}

func (e *entry) add(name, value string) {
	v := Value{name, value}
	if !slices.Contains(e.server.Values, v) {
		e.server.Values = append(e.server.Values, v)
	}
}

// spans are the parts of a string that may be secrets, in order and apart. A part that
// holds nothing but what a variable puts there is none.
func spans(s, before string) []span {
	var all []span
	if strings.HasPrefix(before, "-") && !strings.ContainsAny(before, "=: ") && tellsSecret(before) && !option.MatchString(s) && !harmless(s) {
		return []span{{0, len(s), variableName(before)}}
	}
	all = append(all, assigned(s)...)
	all = append(all, address(s)...)
	for _, at := range secret.Places(s) {
		all = append(all, span{at[0], at[1], ""})
	}
	if random(s) {
		all = append(all, span{0, len(s), ""})
	}
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	var out []span
	for _, p := range all {
		if n := len(out); n > 0 && p.from < out[n-1].to {
			out[n-1].to, out[n-1].label = max(out[n-1].to, p.to), cmp.Or(out[n-1].label, p.label)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// assignments are names and what stands between them and their values: --a=b, A=b, a: b,
// "a": "b", --a b.
var assignments = []*regexp.Regexp{
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)["']?\s*[=:]\s*["']?(?:(?i:bearer|basic|token)\s+)?`),
	regexp.MustCompile(`--?([A-Za-z][A-Za-z0-9_.-]*)\s+["']?`),
}

// assigned are the values of a string that their names make secrets: that of a name at its
// beginning goes to its end, others to the next that parts two.
func assigned(s string) []span {
	var all []span
	for _, a := range assignments {
		for at := 0; at < len(s); {
			m := a.FindStringSubmatchIndex(s[at:])
			if m == nil {
				break
			}
			name, from := s[at+m[2]:at+m[3]], at+m[1]
			first := strings.Trim(s[:at+m[2]], "-") == "" || chain.MatchString(s[:at+m[2]])
			at += m[3] // what is assigned may be an assignment too
			if !tellsSecret(name) || strings.HasPrefix(s[at:], "://") {
				continue
			}
			to := len(s)
			if !first {
				to = from + strings.IndexAny(s[from:]+" ", "\"'&;, \t\r\n}")
			}
			if value := strings.ReplaceAll(s[from:to], filledIn, ""); strings.Trim(value, " :,;") != "" && !harmless(s[from:to]) {
				all = append(all, span{from, to, variableName(name)})
				at = to
			}
		}
	}
	return all
}

var (
	option = regexp.MustCompile(`^(?:-[A-Za-z]|--[a-z][a-z0-9-]*(?:=.*)?)$`)
	chain  = regexp.MustCompile(`^(?:-{0,2}[A-Za-z][A-Za-z0-9_.-]*[=:] ?)+$`)
)

// address are the secrets of a URL: the password, a user without one, and what looks
// random in the path and the query.
func address(s string) []span {
	scheme := strings.Index(s, "://")
	if scheme < 0 {
		return nil
	}
	var all []span
	from := scheme + len("://")
	authority := s[from:]
	if n := strings.IndexAny(authority, "/?# \t\r\n\"'"); n >= 0 {
		authority = authority[:n]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, has := strings.Cut(authority[:at], ":")
		switch {
		case has && len(user)+1 < at:
			all = append(all, span{from + len(user) + 1, from + at, ""})
		case !has && lettersAndDigits(user):
			all = append(all, span{from, from + at, ""})
		}
	}
	for _, at := range segment.FindAllStringIndex(s[from:], -1) {
		part := s[from+at[0] : from+at[1]]
		if plain, err := url.PathUnescape(part); err == nil && (uuid.MatchString(plain) || slices.ContainsFunc(streak.FindAllString(plain, -1), lettersAndDigits)) {
			all = append(all, span{from + at[0], from + at[1], ""})
		}
	}
	return all
}

var (
	segment = regexp.MustCompile(`[A-Za-z0-9_.~+=%-]+`)
	streak  = regexp.MustCompile(`[A-Za-z0-9]{20,}`)
	uuid    = regexp.MustCompile(`(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	truth   = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|none|null|0|1)$`)
	path    = regexp.MustCompile(`^(?:~|\.{0,2}/|[A-Za-z]:[\\/])[^\s=&;,]*\.[A-Za-z]{2,5}$`)
)

// harmless reports whether a value is none, although its name says that it is a secret:
// a switch, or the path of a file.
func harmless(s string) bool {
	s = strings.TrimSpace(s)
	return s == "" || truth.MatchString(s) || path.MatchString(s)
}

// random reports whether a whole argument looks as if drawn by lot. A file or a package
// mostly has a slash, a dot or an @ in its name.
func random(s string) bool {
	return len(s) >= 24 && strings.Trim(s, nameLetters+"0123456789_-+=") == "" &&
		strings.ToLower(s) != s && strings.ToUpper(s) != s && lettersAndDigits(s)
}

func lettersAndDigits(s string) bool {
	return strings.ContainsAny(s, nameLetters) && strings.ContainsAny(s, "0123456789")
}

// scheme reports whether a text says only which kind of credentials follows.
func scheme(s string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "apikey", "api-key", "key", "digest", "negotiate"}, strings.ToLower(strings.TrimSpace(s)))
}

// secretWords are words of names whose values are secrets.
var secretWords = []string{
	"token", "tokens", "key", "keys", "secret", "secrets", "password", "passwords", "passwd", "pwd", "pass", "passphrase", "passcode",
	"pat", "auth", "authorization", "authentication", "credential", "credentials", "creds", "cred", "cookie", "cookies", "jwt", "bearer",
	"session", "sid", "signature", "sig", "hmac", "otp", "totp", "pin", "dsn", "salt", "mnemonic", "license", "licence",
}

// secretEnds are what such names end in where their words stand together.
var secretEnds = []string{"token", "key", "secret", "password", "passwd", "pwd", "auth", "connectionstring", "credentials", "cookie"}

// about, at the end of a name, says that its value is about a secret, and is none.
var about = regexp.MustCompile(`(?i)[a-z0-9][_.-](?:file|path|dir|directory|url|uri|host|port|ids?|name|type|mode|ttl|timeout|count|limit|max|min|size|version|enabled|disabled|format|scopes?|policy|level)$`)

// tellsSecret reports whether the value of what is called so has to be taken for a secret.
func tellsSecret(name string) bool {
	spaced := camel.ReplaceAllString(name, "${1}_${2}")
	if about.MatchString(spaced) {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(spaced), func(c rune) bool { return c < 'a' || c > 'z' })
	joined := strings.Join(words, "")
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) }) ||
		slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(joined, end) })
}

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)
