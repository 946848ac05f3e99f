package secret

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// leastElement is how long an element of a path must be to be taken for a token.
const leastElement = 16

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
		if len(element) >= leastElement && dense(element) {
			all = append(all, element)
		}
	}
	return all
}

// Header returns what is secret in the value of a header: all of it, and what
// stands behind the name of a scheme.
func Header(value string) []string {
	scheme, credentials, _ := strings.Cut(value, " ")
	all := []string{value, credentials}
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
		_, word, _ := strings.Cut(string(plain), ":")
		all = append(all, string(plain), word)
	}
	return all
}
