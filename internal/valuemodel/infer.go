package valuemodel

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Inferred is the host that the settings of a server name. The zero one is none.
type Inferred struct {
	Host string
	From string // the variable or option that names it
}

// String says where the host comes from, and not what else stands there.
func (i Inferred) String() string { return i.From + " names " + i.Host }

// InferHost finds the service that a process is a client of: the one host, other than this
// machine, that its arguments and the variables given to it name, as an address, or under a
// name such as TICKETS_HOST or --server. Variables and options that are about something
// else than what the server serves, such as proxies, telemetry and package registries, do
// not count; where there are several hosts none does.
func InferHost(args []string, env map[string]string) Inferred {
	found := make(map[string]string) // host → where
	note := func(name, from, value string) {
		if host, ok := hostIn(name, value); ok && !loopback(host) && !besides().MatchString(name) {
			found[host] = from
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		note(name, name, env[name])
	}
	option := "" // the one before, which may be waiting for its value
	for _, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		switch {
		case given && (strings.HasPrefix(name, "-") || option == "-e" || option == "--env"):
			note(name, name, value)
		case !strings.HasPrefix(arg, "-"):
			note(option, cmp.Or(option, "an argument"), arg)
		}
		option = ""
		if strings.HasPrefix(arg, "-") && !given {
			option = arg
		}
	}
	if len(found) != 1 {
		return Inferred{}
	}
	for host, from := range found {
		return Inferred{host, from}
	}
	panic("unreachable")
}

// hostIn is the host in a setting: of an address, or alone where the name says that a host
// is named.
func hostIn(name, value string) (host string, ok bool) {
	if strings.Contains(value, "://") {
		if host, ok = urlHost(value); ok {
			return host, true
		}
		u, err := url.Parse(value)
		if err != nil || u.Scheme == "file" || strings.HasPrefix(u.Scheme, "git") {
			return "", false
		}
		host = strings.ToLower(u.Hostname())
		return host, host != ""
	}
	if !namesHost().MatchString(name) {
		return "", false
	}
	host, ok = urlHost("https://" + value)
	return host, ok && hostName(host)
}

// namesHost finds the names of settings whose value is a host or an address.
var namesHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(host|hostname|domain|endpoint|server|site|url|uri|addr|address|base)$`)
})

// besides finds the names of settings that are about something else than what a server serves.
var besides = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)proxy|telemetry|otel|otlp|sentry|datadog|posthog|analytics|registry|mirror|index[-_]?url|npm_config|^pip_|^uv_|^--from$`)
})

// hostName reports whether a text is the name or the address of a host, and no mere word.
func hostName(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	last := name[strings.LastIndex(name, ".")+1:]
	return strings.Contains(name, ".") && len(last) > 1 && onlyLetters(last) && !strings.ContainsAny(name, "/ ")
}

func onlyLetters(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return (r|0x20) < 'a' || (r|0x20) > 'z' })
}
