package config

import (
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/valuemodel"
)

// form is a form that strings of the file must have.
type form struct {
	want string
	ok   func(string) bool
}

// forms returns the forms by the names that tags use: form for a string, the elements of an array or
// the names of blocks, keys for the keys of a table.
var forms = sync.OnceValue(func() map[string]form {
	return map[string]form{
		"upstream": {"a name of letters, digits and -, with single _ between them, so that NAME__TOOL is unambiguous", validName},
		"plan":     {"a name of letters, digits, - and _", func(s string) bool { return s != "" && strings.Trim(s, nameLetters+"_") == "" }},
		"variable": {"the name of an environment variable", func(s string) bool { return s != "" && !strings.ContainsAny(s, "=\x00") }},
		"header":   {"the name of an HTTP header", func(s string) bool { return s != "" && strings.Trim(s, nameLetters+"!#$%&'*+.^_`|~") == "" }},
		"argument": {"the name of an argument", func(s string) bool { return s != "" }},
		"glob":     {`a name or a glob such as "delete_*"`, validGlob},
		"pinned":   {`NAME/TOOL or a glob such as "github/get_*"`, func(s string) bool { return strings.Contains(s, "/") && validGlob(s) }},
		"origin":   {`an origin such as "https://app.example"`, validOrigin},
		"host":     {wantHost, valuemodel.IsHost},
		"limit":    {wantHost + `, or "upstream:NAME", or "*" for every other host`, validLimit},
		"listener": {`a host without scheme and port, such as "box.example"`, bareHost},
		"literal": {"a path without variables and ~, which are not expanded here", func(s string) bool {
			return s != "" && s[0] != '~' && !strings.Contains(s, "${") && !strings.HasPrefix(shellVariable().FindString(s), "$")
		}},
		"path": {"a path without ~, which is not expanded: write ${HOME}", func(s string) bool { return s != "" && s[0] != '~' }},
	}
})

const wantHost = `a host such as "api.github.com" or "[::1]:8080", without port 80 or 443 and without a final dot`

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"

// validName reports whether name consists of letters, digits and -, with single _ between them.
// The first __ of NAME__TOOL then always ends the upstream's name.
func validName(name string) bool {
	for part := range strings.SplitSeq(name, "_") {
		if part == "" || strings.Trim(part, nameLetters) != "" {
			return false
		}
	}
	return true
}

func validGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}

func validOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == origin
}

// validLimit reports whether a name is that of limits.
func validLimit(name string) bool {
	upstream, local := strings.CutPrefix(name, limit.LocalPrefix)
	return name == "*" || local && validName(upstream) || valuemodel.IsHost(name)
}

// bareHost reports whether host is a name or an address, without a port, by which a client can
// reach a listener.
func bareHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsUnspecified()
	}
	u, err := url.Parse("//" + host)
	return err == nil && u.Host == host && host != "" && !strings.ContainsAny(host, " \t:*[]")
}
