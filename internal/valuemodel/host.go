package valuemodel

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"mcpschedd/internal/call"
)

// urlHost returns the host of an HTTP URL in the form used for rate limits: lower case,
// with the port unless it is the scheme's default, without user information.
func urlHost(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil {
		return "", false
	}
	own := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	const longest = 253 // bytes of a DNS name
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

// IsHost reports whether a call to an http or https URL has the host name, but for the case of letters:
// no such call has a host with the port 80 or 443, a final dot, or an IPv6 address without brackets, and
// a glob is no name.
func IsHost(name string) bool {
	plain, _ := urlHost("http://" + name)
	secure, ok := urlHost("https://" + name)
	return ok && plain == secure && secure == strings.ToLower(name) && !strings.Contains(name, "*")
}

// setServer sets the rate limit host, unless a layer has, whether the tool reads from a
// remote service, and the domains. A provider's host takes precedence over that of the
// upstream's url, which may only be a gateway to the service. It does not if the service
// has other installations, as the url is then one of them, with its own limits, or if
// only the server's own name identifies the provider and the operator does not trust it.
func (m *Model) setServer(u Upstream, o origin) {
	web, remote := urlHost(u.URL)
	byURL := u.source("url")
	hostKnown := o.Host != "" && o.trust != claimed
	switch {
	case m.Host != "":
	case hostKnown && !(o.Anywhere && remote):
		m.Host, m.Sources["rate_limit_host"] = o.Host, o.source
	case remote:
		m.Host, m.Sources["rate_limit_host"] = web, byURL
	default:
		m.Host, m.Sources["rate_limit_host"] = "upstream:"+u.Name, sourceDefault
	}
	switch {
	case u.Remote != nil:
		m.Remote, m.Sources["remote"] = *u.Remote, u.source("remote")
	case u.URL != "":
		m.Remote, m.Sources["remote"] = !loopback(web), byURL
	case hostKnown, o.Remote && o.trust > claimed:
		m.Remote, m.Sources["remote"] = true, o.source
	case u.Trust && u.Inferred.Host != "":
		m.Remote, m.Sources["remote"] = true, u.Inferred.String()
	default:
		m.Remote, m.Sources["remote"] = false, sourceDefault
	}
	m.slowToShow = m.Remote
	m.setDomains(u, o, web, hostKnown)
}

// LocalDomain is the domain of everything on this machine.
const LocalDomain = "local"

// setDomains sets the domains; web is the host of the upstream's url. A local process is also in
// the domain "local", as it may read files of this machine, unless a trusted provider or a domain
// that is a host name says that it is a client of a remote service. A server that listens on this
// machine is in it too. A host that only the server's name or its settings name is one more domain.
func (m *Model) setDomains(u Upstream, o origin, web string, hostKnown bool) {
	in := func(name string, remote bool, source string) {
		m.Domains = append(m.Domains, name)
		m.domainPlaces = append(m.domainPlaces, call.Place{Domain: name})
		m.slowToShow = m.slowToShow || remote
		m.Sources["domain"] = source
	}
	here := u.URL == "" && !hostKnown || loopback(web)
	if u.Domain != "" {
		in(u.Domain, u.URL != "" || o.Host != "" || m.Remote || hostName(u.Domain), u.source("domain"))
		if here && !hostName(u.Domain) {
			in(LocalDomain, false, m.Sources["domain"])
		}
		return
	}
	if u.URL != "" {
		in(cmp.Or(web, "upstream:"+u.Name), true, u.source("url"))
	}
	if o.Host != "" && o.Host != web {
		in(o.Host, true, o.source)
	}
	if here {
		in(LocalDomain, false, cmp.Or(m.Sources["domain"], sourceDefault))
	}
	if u.Inferred.Host != "" && !m.In(u.Inferred.Host) {
		in(u.Inferred.Host, true, u.Inferred.String())
	}
}

// localName matches names of this machine. Some resolvers expand incomplete numeric
// addresses: 127.1 and 2130706433 are 127.0.0.1.
var localName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?:.*\.)?localhost(?:\.localdomain)?|(?:[0-9]+\.){0,3}[0-9]+|(?:.*\.)?0x[0-9a-f]+)\.?$`)
})

// loopback reports whether a host name denotes this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback() || addr.Unmap().IsUnspecified()
	}
	return localName().MatchString(host)
}
