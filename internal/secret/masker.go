package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

const (
	minValue = 8 // bytes; a shorter value is also an ordinary word
	// minPrefix is the length from which the end of a truncated text is masked if it is a
	// prefix of a value.
	minPrefix  = 4
	configured = "configured" // rule of the known values
)

// Masker replaces known values in texts by marks, and then anything that looks like a secret.
// It finds a value of 8 bytes or more as it is, percent-encoded (once, or twice as Go does it),
// escaped as in JSON or HTML by common programs, and in base64. A nil Masker has no known
// values. A Masker is immutable and safe for concurrent use.
//
//	m := secret.NewMasker("correct horse", "postgres://bob:staple-3@db/x")
//	m.Text(`correct%20horse, staple-3`) // [secret: configured], [secret: configured]
type Masker struct {
	known func() []string // values and their encodings, the longest first
	exact func() *strings.Replacer
}

// NewMasker returns a Masker for the values that are long enough. Each line of a value,
// and each secret in it, such as the password of a URL, counts as a value too.
func NewMasker(values ...string) *Masker {
	known := sync.OnceValue(func() []string { return knownForms(values) })
	return &Masker{known, sync.OnceValue(func() *strings.Replacer {
		var pairs []string
		for _, v := range known() {
			pairs = append(pairs, v, mark(configured))
		}
		return strings.NewReplacer(pairs...)
	})}
}

// knownForms returns the encodings of values and of their parts, the longest first.
func knownForms(values []string) (known []string) {
	for _, v := range values {
		for _, part := range append(append(In(v), strings.Split(v, "\n")...), v) {
			known = append(known, encodings(strings.TrimSpace(part))...)
		}
	}
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(known)
}

var (
	percent = lazy(`%[0-9A-F]{2}`)
	markup  = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`) // as Go writes them in JSON

	// From the encoding of [url.QueryEscape] to that of JavaScript's encodeURIComponent and Python's quote.
	component   = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")
	pythonQuote = strings.NewReplacer("+", "%20", "%2F", "/")

	inHTML = []*strings.Replacer{ // quotes differ
		htmlEscape(`"`, "'"), htmlEscape("&quot;", "'"), htmlEscape("&#34;", "&#39;"), // browsers, Go
		htmlEscape("&quot;", "&#39;"), htmlEscape("&quot;", "&#x27;"), htmlEscape("&quot;", "&#039;"), // JavaScript, Python, PHP
	}
)

func htmlEscape(double, single string) *strings.Replacer {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, double, "'", single)
}

// encodings returns a value in all forms in which a Masker finds it.
func encodings(v string) []string {
	if len(v) < minValue {
		return nil
	}
	query, path, escaped := url.QueryEscape(v), url.PathEscape(v), jsonText(v)
	all := []string{v, query, path, url.QueryEscape(query), url.QueryEscape(path), component.Replace(query), pythonQuote.Replace(query)}
	quoted := strings.Trim(strconv.QuoteToASCII(v), `"`) // Go
	python := strings.ReplaceAll(quoted, `\u00`, `\x`)
	for _, s := range []string{escaped, markup.Replace(escaped), asciiText(escaped), quoted, python} {
		all = append(all, s, jsonText(s), strings.ReplaceAll(s, "/", `\/`)) // the last as PHP writes them
	}
	for _, r := range inHTML {
		all = append(all, r.Replace(v))
	}
	for _, s := range all {
		all = append(all, percent().ReplaceAllStringFunc(s, strings.ToLower))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes before the value in its group of three
			encoded := encoding.EncodeToString(append(make([]byte, before), v...))
			in := encoded[(before*8+5)/6 : (before+len(v))*8/6] // what depends only on the value
			if len(in) >= minValue {
				all = append(all, in)
			}
		}
	}
	return all
}

// jsonText returns a text as between the quotes of a JSON string.
func jsonText(s string) string {
	out := jsonrpc.AppendString(nil, s)
	return string(out[1 : len(out)-1])
}

// asciiText returns the text of a JSON string with all other characters escaped.
func asciiText(s string) string {
	var out []byte
	for _, c := range utf16.Encode([]rune(s)) {
		if c < utf8.RuneSelf {
			out = append(out, byte(c))
		} else {
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return string(out)
}

// Text returns s with each known value, and anything that looks like a secret, replaced
// by "[secret: RULE]".
func (m *Masker) Text(s string) string {
	if m != nil {
		s = m.exact().Replace(s)
	}
	return Text(s)
}

// Unfinished is Text for a text that may be cut off: a prefix of a value at its end is masked
// too.
func (m *Masker) Unfinished(s string) string {
	if m == nil {
		return Text(s)
	}
	end := len(s)
	for _, value := range m.known() {
		for n := min(len(value)-1, len(s)); n >= minPrefix; n-- {
			if strings.HasSuffix(s, value[:n]) {
				end = min(end, len(s)-n)
				break
			}
		}
	}
	if end == len(s) {
		return m.Text(s)
	}
	for i := 0; i < len(m.known()); i++ { // a value that the cut would divide begins it
		value := m.known()[i]
		from := max(0, end-len(value)+1)
		if at := strings.LastIndex(s[from:min(len(s), end+len(value)-1)], value); at >= 0 {
			end, i = from+at, -1 // which may divide one of those before
		}
	}
	return m.Text(s[:end]) + mark(configured)
}

// maxHead is the number of bytes of a text that Head examines.
const maxHead = 4 << 10

// Head returns the beginning of a masked text on one line, cut to n bytes.
func (m *Masker) Head(text []byte, n int) string {
	s := m.Unfinished(string(text[:min(len(text), maxHead)]))
	return excerpt.Shorten(strings.Join(strings.Fields(s), " "), n)
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

// Armor recognises the lines of a private key in a text that arrives line by line, since
// the other lines do not have the key's header. The zero Armor is outside of a key.
type Armor struct{ left int }

const maxKeyLines = 256 // a key of 16,384 bits has 200

var (
	armorBegin = lazy(`-----BEGIN [^-]*PRIVATE KEY[^-]*-----[ \t\r\n"',]*$`)
	// armorLine is a header, or ends in base64. After other text, such as a log's prefix,
	// a few letters of base64 are not enough.
	armorLine = lazy(`-----END |^\s*(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):.*|` +
		`[A-Za-z0-9+/=]*|.*(?:[^A-Za-z0-9+/=]|^)(?:[A-Za-z0-9+/=]{16,}|[A-Za-z0-9+/]+=+))["',]*\s*$`)
)

// Body reports whether a line belongs to a private key that began on an earlier line. It
// must be called with every line. Text masks the key's first line.
func (a *Armor) Body(line []byte) bool {
	if armorBegin().Match(line) {
		a.left = maxKeyLines
		return false
	}
	body := a.left > 0 && armorLine().Match(line)
	a.left--
	if !body || bytes.Contains(line, []byte("-----END ")) {
		a.left = 0
	}
	return body
}

// URL returns the possible secrets in the URL of a service: many services have a key in
// the query, and some in the path.
func URL(raw string) []string {
	all := parts(raw, find(raw, true))
	u, err := url.Parse(raw)
	if err != nil {
		return all
	}
	password, _ := u.User.Password()
	all = append(all, u.RawQuery, u.Fragment, cmp.Or(password, u.User.Username()))
	for _, values := range u.Query() {
		all = append(all, values...)
	}
	return all
}

// Header returns the secrets in the value of a header: all of it, and the credentials
// after the name of a scheme.
func Header(value string) []string {
	scheme, credentials, _ := strings.Cut(value, " ")
	all := []string{value, credentials}
	plain, err := base64.StdEncoding.DecodeString(credentials)
	if err == nil && strings.EqualFold(scheme, "basic") {
		_, word, _ := strings.Cut(string(plain), ":")
		all = append(all, string(plain), word)
	}
	return all
}
