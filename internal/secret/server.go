package secret

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// URL returns the possible secrets in the URL of a service: many services have a key in the
// query, and some in the path.
func URL(raw string) []string {
	all := In(raw)
	for _, p := range findElements(raw) {
		decoded, _ := url.PathUnescape(raw[p.from:p.to]) // cannot fail: findElements decoded it
		all = append(all, raw[p.from:p.to], decoded)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return all
	}
	all = append(all, u.RawQuery, u.Fragment)
	if password, ok := u.User.Password(); ok {
		all = append(all, password)
	} else {
		all = append(all, u.User.Username())
	}
	for _, values := range u.Query() {
		all = append(all, values...)
	}
	return all
}

// Header returns the secrets in the value of a header: all of it, and the credentials after the
// name of a scheme.
func Header(value string) []string {
	scheme, credentials, _ := strings.Cut(value, " ")
	all := []string{value, credentials}
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
		_, word, _ := strings.Cut(string(plain), ":")
		all = append(all, string(plain), word)
	}
	return all
}
