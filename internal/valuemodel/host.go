package valuemodel

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"mcpschedd/internal/call"
)

// urlHost is the host of an http url as limits name it: in lower case, with the
// port if it is not the scheme's own, and without who logs in.
func urlHost(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil {
		return "", false
	}
	own := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	const longest = 253 // a name in the DNS
	if own == "" || host == "" || len(host) > longest {
		return "", false
	}
	if port := u.Port(); port != "" && port != own {
		return net.JoinHostPort(host, port), true
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host, true
}

// locate sets the host whose limits count, where no layer has, and the domains.
// A provider's host goes before that of the upstream's url, which may be a mere
// gateway to the service; but not where the service has installations elsewhere,
// for then the url is one, with limits of its own; nor where nobody vouches for
// the provider.
func (m *Model) locate(u Upstream, o origin) {
	web, remote := urlHost(u.URL)
	byURL := "upstreams." + u.Name + ".url"
	switch {
	case m.Host != "":
	case o.Host != "" && o.standing != claimed && !(o.Anywhere && remote):
		put(m, "rate_limit_host", o.source, &m.Host, o.Host)
	case remote:
		put(m, "rate_limit_host", byURL, &m.Host, web)
	default:
		put(m, "rate_limit_host", sourceDefault, &m.Host, "upstream:"+u.Name)
	}

	in := func(name string, remote bool, source string) {
		m.Domains = append(m.Domains, Domain{name, remote})
		m.here = append(m.here, call.Place{Domain: name})
		m.remote = m.remote || remote
		m.Sources["domain"] = source
	}
	switch {
	case u.Domain != "":
		in(u.Domain, u.URL != "" || o.Host != "", "upstreams."+u.Name+".domain")
		return
	case remote:
		in(web, true, byURL)
	case u.URL != "": // of a host that cannot be told
		in("upstream:"+u.Name, true, byURL)
	}
	if o.Host != "" && o.Host != web {
		in(o.Host, true, o.source)
	}
	// A name that nobody vouches for is no reason to take a process for a mere
	// window on a host; and what listens on this machine may well read its files.
	if len(m.Domains) == 0 || u.URL == "" && o.standing == claimed || loopback(web) {
		in("local", false, sourceDefault)
	}
}

// loopback reports whether a host is this machine by its very name. Numbers that
// are no whole address have a meaning of their own to some resolvers: 127.1 and
// 2130706433 are 127.0.0.1.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() || addr.Unmap().IsUnspecified()
	}
	last := host[strings.LastIndex(host, ".")+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || host == "localhost" || host == "localhost.localdomain" || last == "localhost"
}
