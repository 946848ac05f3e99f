package secret

import (
	"encoding/base64"
	"slices"
	"strings"
)

const (
	minValue = 8 // bytes; a shorter value is also an ordinary word
	// minPrefix is the length from which the end of a truncated text is masked if it is a
	// prefix of a value.
	minPrefix  = 4
	configured = "configured" // rule of the known values
)

// Masker removes known values from texts, and then anything that looks like a secret. It finds
// a value as it is, percent-encoded (once or twice), escaped as in JSON or HTML, and in base64.
// A nil Masker has no known values. A Masker is immutable and safe for concurrent use.
//
//	m := secret.NewMasker("correct horse", "postgres://bob:staple-3@db/x")
//	m.Text(`login: "correct\u0020horse", staple-3`) // login: "[secret: configured]", [secret: configured]
type Masker struct {
	values []string // known values and their encodings
	spaced bool     // a value contains a space
}

// NewMasker returns a Masker for the values that are long enough. Each line of a value, and
// each secret in it, such as the password of a URL, counts as a value too.
func NewMasker(values ...string) *Masker {
	m := new(Masker)
	for _, v := range values {
		for _, known := range append(append(In(v), strings.Split(v, "\n")...), v) {
			m.add(known)
			m.add(strings.TrimSpace(known))
		}
	}
	slices.Sort(m.values)
	m.values = slices.Compact(m.values)
	return m
}

func (m *Masker) add(value string) {
	if len(value) < minValue {
		return
	}
	m.values = append(m.values, value)
	m.spaced = m.spaced || strings.Contains(value, " ")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes before the value in its group of three
			if in := within(encoding, value, before); len(in) >= minValue {
				m.values = append(m.values, in)
			}
		}
	}
}

// within returns the base64 of a value in the middle of other bytes: the characters that depend
// only on the value.
func within(encoding *base64.Encoding, value string, before int) string {
	all := encoding.EncodeToString(append(make([]byte, before), value...))
	from := (before*8 + 5) / 6
	to := (before + len(value)) * 8 / 6
	return all[from:to]
}

// Text returns s with each known value, and anything that looks like a secret, replaced by
// "[secret: RULE]".
func (m *Masker) Text(s string) string { return Text(m.exact(s)) }

// Unfinished is Text for a text whose end may be missing: a prefix of a value at its end is
// masked too.
func (m *Masker) Unfinished(s string) string {
	cut := len(s)
	for v := range m.views(s) {
		for _, value := range m.values {
			for n := min(len(value)-1, len(v.text)); n >= minPrefix; n-- {
				if strings.HasSuffix(v.text, value[:n]) {
					cut = min(cut, v.source(len(v.text)-n))
					break
				}
			}
		}
	}
	if cut == len(s) {
		return m.Text(s)
	}
	return m.Text(s[:cut]) + mark(configured)
}

// maxHead is the number of bytes of a text that Head examines.
const maxHead = 4 << 10

// Head returns the beginning of a masked text on one line, cut to n bytes.
func (m *Masker) Head(text []byte, n int) string {
	var s string
	if len(text) > maxHead {
		s = m.Unfinished(string(text[:maxHead]))
	} else {
		s = m.Text(string(text))
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// exact returns s with the known values replaced.
func (m *Masker) exact(s string) string {
	var found []span
	for v := range m.views(s) {
		for _, value := range m.values {
			for from := 0; ; from++ {
				n := strings.Index(v.text[from:], value)
				if n < 0 {
					break
				}
				from += n
				found = append(found, span{from: v.source(from), to: v.sourceEnd(from + len(value)), rule: configured})
			}
		}
	}
	return replace(s, merge(found))
}

// Error returns err, or an error that wraps it and has its text without secrets.
func (m *Masker) Error(err error) error {
	if err == nil {
		return nil
	}
	original := err.Error()
	if text := m.Text(original); text != original {
		return &masked{err, text}
	}
	return err
}

// masked is an error with a masked text.
type masked struct {
	error
	text string
}

func (e *masked) Error() string { return e.text }

func (e *masked) Unwrap() error { return e.error }
