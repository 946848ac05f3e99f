package secret

import (
	"encoding/base64"
	"slices"
	"strings"
)

const (
	least = 8 // bytes of a value that is masked wherever it stands: a shorter one is a word, too
	// leastBegin is how many bytes at the end of a text that was cut off must be the
	// beginning of a value to be taken for it.
	leastBegin = 4
	configured = "configured" // the rule for what was known beforehand
)

// Masker takes known values out of texts, and then what looks like a secret by
// itself. It finds a value as it is, percent-encoded (once or twice), escaped as in
// JSON or HTML, and in base64. A nil Masker knows no values. It is never changed, so that any number of
// goroutines may use it.
//
//	m := secret.NewMasker("correct horse", "postgres://bob:staple-3@db/x")
//	m.Text(`login: "correct\u0020horse", staple-3`) // login: "[secret: configured]", [secret: configured]
type Masker struct {
	values []string // what is looked for
	spaced bool     // one of them has a space in it
}

// NewMasker returns a masker of those values that are long enough. Of a value of
// several lines each line counts, and of one that has a secret in it, such as the
// password of a URL, that too.
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
	if len(value) < least {
		return
	}
	m.values = append(m.values, value)
	m.spaced = m.spaced || strings.Contains(value, " ")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes in the group of three that the value begins in
			if in := within(encoding, value, before); len(in) >= least {
				m.values = append(m.values, in)
			}
		}
	}
}

// within is what base64 makes of a value in the midst of other bytes: those
// characters that depend on nothing else.
func within(encoding *base64.Encoding, value string, before int) string {
	all := encoding.EncodeToString(append(make([]byte, before), value...))
	from := (before*8 + 5) / 6
	to := (before + len(value)) * 8 / 6
	return all[from:to]
}

// Text returns s without the values and without what looks like a secret: each is
// replaced by "[secret: RULE]".
func (m *Masker) Text(s string) string { return Text(m.exact(s)) }

// Unfinished is Text for a text whose end may be missing: what may be the beginning
// of a value at its end goes as well.
func (m *Masker) Unfinished(s string) string {
	cut := len(s)
	for v := range m.views(s) {
		for _, value := range m.values {
			for n := min(len(value)-1, len(v.text)); n >= leastBegin; n-- {
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

// headRead is how many bytes of a text are looked at for the first few of it.
const headRead = 4 << 10

// Head is the beginning of a text on one line, up to n bytes of what is left of it.
func (m *Masker) Head(text []byte, n int) string {
	var s string
	if len(text) > headRead {
		s = m.Unfinished(string(text[:headRead]))
	} else {
		s = m.Text(string(text))
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// exact returns s with the values replaced.
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
	return replace(s, apart(found))
}

// Error returns err, or one that wraps it and says the same without secrets.
func (m *Masker) Error(err error) error {
	if err == nil {
		return nil
	}
	said := err.Error()
	if text := m.Text(said); text != said {
		return &masked{err, text}
	}
	return err
}

// masked is an error that may be shown.
type masked struct {
	error
	text string
}

func (e *masked) Error() string { return e.text }

func (e *masked) Unwrap() error { return e.error }
