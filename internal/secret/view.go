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

// view is a text as a reader would decode it, and where each byte of it stands in
// the text as written.
type view struct {
	text string
	at   []int // place in text → place as written; nil: it is the text as written
}

func (v view) source(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// sourceEnd is where what ends at i ends as written.
func (v view) sourceEnd(i int) int {
	for v.at != nil && i > 0 && i < len(v.text) && v.at[i] == v.at[i-1] {
		i++ // within one escape
	}
	return v.source(i)
}

// escapes are those of a kind, each a way to write one character: of JSON and programs, of
// URLs, of pages of HTML, of forms.
var escapes = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		`\`: regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|\\u[[:xdigit:]]{4}|\\U[[:xdigit:]]{8}|\\x[[:xdigit:]]{2}|\\[^uUx0-7]`),
		"%": regexp.MustCompile(`%[[:xdigit:]]{2}`),
		"&": regexp.MustCompile(`&#?[[:alnum:]]{1,8};`),
		"+": regexp.MustCompile(`%[[:xdigit:]]{2}|\+`),
	}
})

// decode is what an escape stands for, or itself.
func decode(escape string) string {
	switch escape[0] {
	case '+':
		return " "
	case '&':
		return html.UnescapeString(escape)
	case '%':
		plain, _ := url.PathUnescape(escape) // two digits always decode
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

// levels is how often a text may have been escaped: JSON in a JSON string is twice.
const levels = 2

// views are the ways in which a text can be read.
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

// decodings are a view with the escapes of one kind decoded, for each that it has.
func (v view) decodings(spaced bool) map[string]view {
	all := make(map[string]view)
	for _, kind := range []string{"%", "&", "+"} {
		if strings.Contains(v.text, kind) && (kind != "+" || spaced) {
			all[kind] = v.decoded(kind)
		}
	}
	return all
}

// decoded is a view with escapes of a kind decoded once more.
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
