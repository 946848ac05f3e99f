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

// Inferred is the host that a server's settings name. The zero value names none.
type Inferred struct {
	Host string
	From string // variable or option that names the host
}

// String says which setting names the host, without the setting's value.
func (i Inferred) String() string { return i.From + " names " + i.Host }

// InferHost returns the remote host that a process is a client of: the only host, other
// than this machine, that its arguments and its configured environment variables name,
// in a URL or under a name such as TICKETS_HOST or --server. It ignores settings that
// are unrelated to the server's own service, such as proxies, telemetry and package
// registries. If the settings name several hosts, it returns none.
func InferHost(args []string, env map[string]string) Inferred {
	found := make(map[string]string) // host → setting
	note := func(name, from, value string) {
		if host, ok := hostIn(name, value); ok && !loopback(host) && !settingForms().unrelated.MatchString(name) {
			found[host] = from
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		note(name, name, env[name])
	}
	option := "" // previous option, if its value may follow
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
	for host, from := range found {
		if len(found) == 1 {
			return Inferred{host, from}
		}
	}
	return Inferred{}
}

// hostIn returns the host in a setting: that of a URL, or the value itself if the
// setting's name says that it is a host.
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
	if !settingForms().host.MatchString(name) {
		return "", false
	}
	host, ok = urlHost("https://" + value)
	return host, ok && hostName(host)
}

var settingForms = sync.OnceValue(func() (f struct{ host, unrelated, qualified *regexp.Regexp }) {
	// Names of settings with a host or an address as value.
	f.host = regexp.MustCompile(`(?i)(host|hostname|domain|endpoint|server|site|url|uri|addr|address|base)$`)
	// Names of settings that are unrelated to a server's own service.
	f.unrelated = regexp.MustCompile(`(?i)proxy|telemetry|otel|otlp|sentry|datadog|posthog|analytics|` +
		`registry|mirror|index[-_]?url|npm_config|^pip_|^uv_|^--from$`)
	// A qualified host name, not just a word, without its port.
	f.qualified = regexp.MustCompile(`^[^/ :]*\.[A-Za-z]{2,}(?::|$)`)
	return f
})

// hostName reports whether a text is a qualified host name or an address.
func hostName(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || settingForms().qualified.MatchString(text)
}
