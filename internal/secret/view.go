package secret

import (
	"encoding/json"
	"html"
	"iter"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// view is a decoded text with the position of each byte in the original.
type view struct {
	text string
	at   []int // offset in text → offset in the original; nil if text is the original
}

func (v view) source(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// sourceEnd returns the end in the original of a part that ends at i.
func (v view) sourceEnd(i int) int {
	for v.at != nil && i > 0 && i < len(v.text) && v.at[i] == v.at[i-1] {
		i++ // inside one escape
	}
	return v.source(i)
}

// escapes holds the escapes by kind: of JSON and programs, URLs, HTML, and forms.
var escapes = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		`\`: regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|\\u[[:xdigit:]]{4}|\\U[[:xdigit:]]{8}|\\x[[:xdigit:]]{2}|\\[^uUx0-7]`),
		"%": regexp.MustCompile(`%[[:xdigit:]]{2}`),
		"&": regexp.MustCompile(`&#?[[:alnum:]]{1,8};`),
		"+": regexp.MustCompile(`%[[:xdigit:]]{2}|\+`),
	}
})

// decode returns the text of an escape, or the escape itself.
func decode(escape string) string {
	switch escape[0] {
	case '+':
		return " "
	case '&':
		return html.UnescapeString(escape)
	case '%':
		plain, _ := url.PathUnescape(escape) // two hex digits always decode
		return plain
	}
	var plain string
	if json.Unmarshal([]byte(`"`+escape+`"`), &plain) == nil {
		return plain
	}
	if plain, err := strconv.Unquote(`"` + escape + `"`); err == nil {
		return plain
	}
	return escape[1:] // \'
}

// levels is how many times a text may have been escaped: JSON in a JSON string has two.
const levels = 2

// views yields a text with its escapes decoded in each supported way.
func (m *Masker) views(s string) iter.Seq[view] {
	return func(yield func(view) bool) {
		if m == nil || len(m.values) == 0 {
			return
		}
		v := view{text: s}
		for range levels + 1 {
			more := yield(v)
			for kind, once := range v.decodings(m.spaced) {
				more = more && yield(once) && (kind != "%" || yield(once.decoded(kind))) // a URL in a URL is twice
			}
			if !more || !strings.Contains(v.text, `\`) {
				return
			}
			v = v.decoded(`\`)
		}
	}
}

// decodings returns the view with the escapes of each kind decoded.
func (v view) decodings(spaced bool) map[string]view {
	all := make(map[string]view)
	for _, kind := range []string{"%", "&", "+"} {
		if strings.Contains(v.text, kind) && (kind != "+" || spaced) {
			all[kind] = v.decoded(kind)
		}
	}
	return all
}

// decoded returns a view with the escapes of one kind decoded once.
func (v view) decoded(kind string) view {
	out := view{at: make([]int, 0, len(v.text)+1)}
	var b strings.Builder
	done := 0
	keep := func(to int) {
		b.WriteString(v.text[done:to])
		for ; done < to; done++ {
			out.at = append(out.at, v.source(done))
		}
	}
	for _, at := range escapes()[kind].FindAllStringIndex(v.text, -1) {
		keep(at[0])
		plain := decode(v.text[at[0]:at[1]])
		b.WriteString(plain)
		for range len(plain) {
			out.at = append(out.at, v.source(at[0]))
		}
		done = at[1]
	}
	keep(len(v.text))
	out.text, out.at = b.String(), append(out.at, v.source(len(v.text)))
	return out
}
