package clients

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mcpschedd/internal/secret"
)

// context is what stands around a text, which may tell that it is a secret.
type context struct {
	place
	name   string // of an environment variable or a header; "" for others
	before string // the argument before it
	server string // what a variable is called after, if nothing better is known
}

// hide replaces what is, or may be, a secret in a text that is not written yet.
func (c context) hide(t text) text {
	t = c.defaults(t)
	if name := c.named(t); tellsSecret(name) {
		return c.sure(c.value(t, c.label, tellsPassword(name)))
	}
	if c.name == "" {
		t = c.assigned(t)
	}
	var out text
	for _, p := range t {
		if p.variable != "" || p.secret != nil {
			out = append(out, p)
			continue
		}
		out = append(out, c.literal(p.literal, len(t) > 1)...)
	}
	return c.sure(out)
}

// named is what a text is called: an option before it counts, unless it is an option too.
func (c context) named(t text) string {
	if c.name != "" || !strings.HasPrefix(c.before, "-") || strings.ContainsAny(c.before, "=: ") || option.MatchString(t.plain()) {
		return c.name
	}
	return c.before
}

var option = regexp.MustCompile(`^(?:-[A-Za-z]|--[a-z][a-z0-9-]*(?:=.*)?)$`)

// defaults takes out the defaults of variables that may be secrets.
func (c context) defaults(t text) text {
	t = slices.Clone(t)
	for i, p := range t {
		if p.variable == "" || !p.fallback || p.literal == "" {
			continue
		}
		named := tellsSecret(p.variable) || tellsSecret(c.named(t))
		word := slices.Contains(schemes, strings.ToLower(p.literal))
		if named && !word && !harmless(p.literal, true) || len(c.spans(p.literal)) > 0 {
			t[i] = piece{variable: p.variable, ask: &c.node}
		}
	}
	return t
}

// schemes are what stands before the credentials in a header.
var schemes = []string{"bearer", "basic", "token", "apikey", "api-key", "key", "digest", "negotiate"}

// value hides the whole of a text, but for the word before it that says what kind of
// secret it is.
func (c context) value(t text, label string, password bool) text {
	if len(t) == 0 || len(t) == 1 && harmless(t[0].literal, password) && t[0].variable == "" && t[0].secret == nil {
		return t
	}
	scheme, rest := "", t
	if first := t[0]; first.variable == "" && first.secret == nil {
		if word, after, ok := strings.Cut(first.literal, " "); ok && slices.Contains(schemes, strings.ToLower(word)) {
			after = strings.TrimLeft(after, " ")
			scheme = first.literal[:len(first.literal)-len(after)]
			if rest = t[1:]; after != "" {
				rest = append(text{piece{literal: after}}, rest...)
			}
		}
	}
	if !slices.ContainsFunc(rest, func(p piece) bool {
		return p.variable == "" && p.secret == nil && strings.Trim(p.literal, " :,;") != ""
	}) {
		return t
	}
	hidden := text{c.take(rest, label, scheme != "")}
	if scheme != "" {
		hidden = append(text{piece{literal: scheme}}, hidden...)
	}
	return hidden
}

// take makes a secret out of some pieces.
func (c context) take(t text, label string, part bool) piece {
	var value strings.Builder
	for _, p := range t {
		value.WriteString("\x00" + p.variable + "\x00" + p.literal)
	}
	return piece{secret: &withheld{value: value.String(), label: label, where: c.node, part: part}}
}

var leading = regexp.MustCompile(`^(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)([=:] ?)`)

// assigned hides what an argument assigns to a name, be it --name=…, NAME=… or
// Header: …, or one of these behind another.
func (c context) assigned(t text) text {
	if len(t) == 0 || t[0].variable != "" || t[0].secret != nil {
		return t
	}
	done, s := "", t[0].literal
	for {
		m := leading.FindStringSubmatch(s)
		if m == nil {
			return t
		}
		done, s = done+m[0], s[len(m[0]):]
		if !tellsSecret(m[1]) {
			continue
		}
		rest := slices.Clone(t[1:])
		if s != "" {
			rest = append(text{piece{literal: s}}, rest...)
		}
		hidden := c.value(rest, c.labelled(m[1]), tellsPassword(m[1]))
		for _, p := range hidden {
			if p.secret != nil {
				p.secret.part = true
			}
		}
		return append(text{piece{literal: done}}, hidden...)
	}
}

// labelled is what the variable for the value of some name would be called.
func (c context) labelled(name string) string {
	label := variableName(name)
	if strings.TrimLeft(name, "-") == label { // NAME is one already
		return label
	}
	return join(c.server, label)
}

// assignments are names in the midst of a text, and what stands between them and their
// values: a=b&c=d, "a": "b", --a b.
var assignments = []*regexp.Regexp{
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)["']?\s*[=:]\s*["']?(?:(?i:bearer|basic|token)\s+)?`),
	regexp.MustCompile(`--?([A-Za-z][A-Za-z0-9_.-]*)\s+["']?`),
}

// inside are the values in the midst of a text that their names make secrets.
func (c context) inside(s string) []span {
	var all []span
	for _, a := range assignments {
		for at := 0; at < len(s); {
			m := a.FindStringSubmatchIndex(s[at:])
			if m == nil {
				break
			}
			name, from := s[at+m[2]:at+m[3]], at+m[1]
			at += m[3] // what is assigned may be an assignment too
			if !tellsSecret(name) {
				continue
			}
			to := from + strings.IndexAny(s[from:]+" ", "\"'&;, \t\r\n}")
			if from < to && !harmless(s[from:to], tellsPassword(name)) {
				all = append(all, span{from, to, c.labelled(name)})
				at = to
			}
		}
	}
	return all
}

// span is a part of a literal, and what its variable would be called.
type span struct {
	from, to int
	label    string
}

// literal is what stands in a text, with what may be a secret taken out. part says that
// more stands around it.
func (c context) literal(s string, part bool) text {
	spans := c.spans(s)
	if len(spans) == 0 {
		return text{piece{literal: s}}
	}
	var t text
	done := 0
	for _, p := range spans {
		if p.from < done {
			continue
		}
		if p.from > done {
			t = append(t, piece{literal: s[done:p.from]})
		}
		whole := !part && p.from == 0 && p.to == len(s)
		t = append(t, c.take(text{{literal: s[p.from:p.to]}}, p.label, !whole))
		done = p.to
	}
	if done < len(s) {
		t = append(t, piece{literal: s[done:]})
	}
	return t
}

// spans are the secrets in a literal, in order. Two may overlap.
func (c context) spans(s string) []span {
	all := c.inside(s)
	if c.name != "" && !tellsOther(c.name) || strings.Contains(s, "://") {
		all = append(all, random(s, c.label)...)
	} else if c.name == "" && mixed(s) {
		all = append(all, span{0, len(s), c.label})
	}
	all = append(all, c.scrubbed(s)...)
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	for i := 1; i < len(all); i++ { // what overlaps goes as one
		if last := &all[i-1]; all[i].from < last.to {
			last.to = max(last.to, all[i].to)
			all = slices.Delete(all, i, i+1)
			i--
		}
	}
	return all
}

var marks = regexp.MustCompile(`\[secret: [a-z0-9-]+\]`)

// scrubbed is the secret in a literal by the rules of records: all of it, if there is
// more than one.
func (c context) scrubbed(s string) []span {
	out := c.scrub(s)
	if out == s {
		return nil
	}
	at := marks.FindAllStringIndex(out, -1)
	if len(at) != 1 || strings.Contains(s, "[secret:") {
		return []span{{0, len(s), c.label}}
	}
	before, after := out[:at[0][0]], out[at[0][1]:]
	if len(before)+len(after) > len(s) || !strings.HasPrefix(s, before) || !strings.HasSuffix(s, after) {
		return []span{{0, len(s), c.label}}
	}
	return []span{{len(before), len(s) - len(after), c.label}}
}

// scrub is a value without the secrets in it. Its name counts, and so does what stands
// before it, unless it is harmless whatever its name.
func (c context) scrub(s string) string {
	name, before := c.name, c.before
	if harmless(s, tellsPassword(name+" "+before)) {
		name, before = "", ""
	}
	if option.MatchString(s) { // the one before it takes no value
		before = ""
	}
	if name == "" {
		var out []string
		if !scrubbed([]string{before, s}, &out) || len(out) != 2 {
			return ""
		}
		return out[1]
	}
	var out map[string]string
	if !scrubbed(map[string]string{name: s}, &out) || len(out) != 1 {
		return ""
	}
	return slices.Collect(maps.Values(out))[0]
}

// scrubbed puts a value through the rules of records; false: what comes of it is
// another kind of value.
func scrubbed(in, out any) bool {
	data, err := json.Marshal(in)
	return err == nil && json.Unmarshal(secret.JSON(data), out) == nil
}

// sure hides all of a text in which the rules still find something once each secret is
// a variable: what stands across pieces.
func (c context) sure(t text) text {
	if c.across(t) {
		return text{c.take(t, c.label, false)}
	}
	return t
}

func (c context) across(t text) bool {
	masked := slices.Clone(t)
	for i, p := range masked {
		if p.secret != nil {
			masked[i] = piece{variable: "X"}
		} else if p.variable != "" {
			masked[i] = piece{variable: p.variable} // its default has been seen to
		}
	}
	const one = "\x01"
	s := t.filled(one)
	for _, p := range c.inside(s) {
		value := strings.Trim(s[p.from:p.to], one)
		if value != "" && !slices.Contains(schemes, strings.ToLower(value)) {
			return true
		}
	}
	s = masked.String()
	out := c.scrub(s)
	if out == s {
		return false
	}
	at := marks.FindAllStringIndex(out, -1)
	if len(at) != 1 {
		return true
	}
	before, after := out[:at[0][0]], out[at[0][1]:]
	return !strings.HasPrefix(s, before) || !strings.HasSuffix(s, after) || len(before)+len(after) > len(s) || !variables.MatchString(s[len(before):len(s)-len(after)])
}

// variables is a text that has nothing else, but for what kind of secret they are.
var variables = regexp.MustCompile(`^(?i:(?:bearer|basic|token|apikey|key|digest) +)?(?:\$\{[A-Za-z0-9_]+\}[:,; ]*)+$`)
