package secret

import (
	"cmp"
	"encoding/base64"
	"html"
	"net/url"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

const (
	least = 8 // bytes of a value that is masked wherever it stands: a shorter one is a word, too
	// leastBegin is how many bytes at the end of a text that was cut off must be the
	// beginning of a value to be taken for it.
	leastBegin = 4
	configured = "configured" // the rule for what was known beforehand
)

// Masker takes known values out of texts, and then what looks like a secret by
// itself. It finds a value as it is, and as JSON, HTML, a URL (once or twice) and base64
// write it. A nil Masker knows no values. It is never changed, so that any number of
// goroutines may use it.
//
//	m := secret.NewMasker("correct horse", "postgres://bob:staple-3@db/x")
//	m.Text("login: correct%20horse, staple-3") // login: [secret: configured], [secret: configured]
type Masker struct {
	forms   []string // what is looked for, the longest first
	replace *strings.Replacer
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
	slices.SortFunc(m.forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	m.forms = slices.Compact(m.forms)
	var pairs []string
	for _, form := range m.forms {
		pairs = append(pairs, form, mark(configured))
	}
	m.replace = strings.NewReplacer(pairs...)
	return m
}

// add adds the forms in which a value may be written.
func (m *Masker) add(value string) {
	if len(value) < least {
		return
	}
	query, path, json := url.QueryEscape(value), url.PathEscape(value), escaped(value)
	m.forms = append(m.forms, value, query, path, url.QueryEscape(query), url.QueryEscape(path), json, escaped(json), html.EscapeString(value))
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes in the group of three that the value begins in
			if in := within(encoding, value, before); len(in) >= least {
				m.forms = append(m.forms, in)
			}
		}
	}
}

// escaped is a text as it stands in a JSON string.
func escaped(s string) string {
	text := jsonrpc.AppendString(nil, s)
	return string(text[1 : len(text)-1])
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
func (m *Masker) Text(s string) string {
	if m != nil {
		s = m.replace.Replace(s)
	}
	return Text(s)
}

// Unfinished is Text for a text whose end may be missing: what may be the beginning
// of a value at its end goes as well.
func (m *Masker) Unfinished(s string) string {
	if m == nil {
		return Text(s)
	}
	cut := len(s)
	for _, form := range m.forms {
		for n := min(len(form)-1, len(s)); n >= leastBegin; n-- {
			if strings.HasSuffix(s, form[:n]) {
				cut = min(cut, len(s)-n)
				break
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
