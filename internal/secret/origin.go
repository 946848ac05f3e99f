package secret

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// Where secrets come from: for the values of a masker.

// In returns the parts of a text that look like secrets.
func In(s string) []string {
	var all []string
	for _, p := range Places(s) {
		all = append(all, s[p[0]:p[1]])
	}
	return all
}

// Places returns where these begin and end, in order and apart.
func Places(s string) [][2]int {
	var all [][2]int
	for _, p := range named(s, shaped(s)) {
		if p.rule != "" {
			all = append(all, [2]int{p.from, p.to})
		}
	}
	return all
}

// Named reports whether a value is a secret if it stands under that name.
func Named(name, value string) bool {
	k := classify(name)
	return k != plain && k.value(value)
}

// URL returns what may be secret in the URL of a service: many take a key in the
// query, and some as an element of the path.
func URL(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		return In(raw)
	}
	all := append(In(raw), u.RawQuery, u.Fragment)
	if password, ok := u.User.Password(); ok {
		all = append(all, password)
	} else {
		all = append(all, u.User.Username())
	}
	for _, values := range u.Query() {
		all = append(all, values...)
	}
	for element := range strings.SplitSeq(u.Path, "/") {
		if len(element) >= leastUser && dense(element) {
			all = append(all, element)
		}
	}
	return all
}

// Header returns what is secret in the value of a header: all of it, and what
// stands behind the name of a scheme.
func Header(value string) []string {
	all := []string{value}
	scheme, credentials, _ := strings.Cut(value, " ")
	all = append(all, credentials)
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
		_, word, _ := strings.Cut(string(plain), ":")
		all = append(all, string(plain), word)
	}
	return all
}
