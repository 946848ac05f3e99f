package valuemodel

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/call"
)

// urlHost is the host of an http url as limits name it: in lower case, with the
// port if it is not the scheme's own, and without a user's name.
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

// locate sets the host whose limits count, where no layer has, whether reads go to a
// service elsewhere, and the domains. A provider's host goes before that of the upstream's
// url, which may be a mere gateway to the service; but not where the service has
// installations elsewhere, for then the url is one, with limits of its own; nor where only
// the server's own name says which provider it has.
func (m *Model) locate(u Upstream, o origin) {
	web, remote := urlHost(u.URL)
	byURL := "upstreams." + u.Name + ".url"
	vouched := o.Host != "" && o.standing != claimed
	switch {
	case m.Host != "":
	case vouched && !(o.Anywhere && remote):
		put(m, "rate_limit_host", o.source, &m.Host, o.Host)
	case remote:
		put(m, "rate_limit_host", byURL, &m.Host, web)
	default:
		put(m, "rate_limit_host", sourceDefault, &m.Host, "upstream:"+u.Name)
	}
	switch {
	case u.Remote != nil:
		m.Remote, m.Sources["remote"] = *u.Remote, "upstreams."+u.Name+".remote"
	case u.URL != "":
		m.Remote, m.Sources["remote"] = !loopback(web), byURL
	case vouched, o.Remote && o.standing > claimed:
		m.Remote, m.Sources["remote"] = true, o.source
	case u.Trust && u.Inferred.Host != "":
		m.Remote, m.Sources["remote"] = true, u.Inferred.String()
	default:
		m.Remote, m.Sources["remote"] = false, sourceDefault
	}
	m.remote = m.Remote
	m.join(u, o, vouched)
}

// join sets the domains. A process is in the domain "local" too, for it may read the files of
// this machine, unless a provider that the operator trusts or a domain that is a host says
// that it is a client of a service elsewhere. So is a server that listens on this machine.
func (m *Model) join(u Upstream, o origin, vouched bool) {
	web, remote := urlHost(u.URL)
	byURL := "upstreams." + u.Name + ".url"
	in := func(name string, remote bool, source string) {
		m.Domains = append(m.Domains, Domain{name, remote})
		m.here = append(m.here, call.Place{Domain: name})
		m.remote = m.remote || remote
		m.Sources["domain"] = source
	}
	if u.Domain != "" {
		in(u.Domain, u.URL != "" || o.Host != "" || m.Remote || hostName(u.Domain), "upstreams."+u.Name+".domain")
		if u.URL == "" && !vouched && !hostName(u.Domain) {
			in("local", false, m.Sources["domain"])
		}
		return
	}
	switch {
	case remote:
		in(web, true, byURL)
	case u.URL != "": // of a host that cannot be told
		in("upstream:"+u.Name, true, byURL)
	}
	if o.Host != "" && o.Host != web {
		in(o.Host, true, o.source)
	}
	if u.URL == "" && !vouched || loopback(web) {
		in("local", false, sourceDefault)
	}
	if inferred := u.Inferred; u.Trust && inferred.Host != "" && !slices.ContainsFunc(m.Domains, func(d Domain) bool { return d.Name == inferred.Host }) {
		in(inferred.Host, true, inferred.String())
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
