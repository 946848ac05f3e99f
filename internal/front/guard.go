package front

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// guard passes to next what comes neither from a web page that reaches for a local
// server nor from a client without the token: the host that a request names is ours,
// the page it comes from is allowed, and it bears the token, unless its page asks for
// that itself.
func (o *HTTPOptions) guard(next http.Handler, asks func(*http.Request) bool) http.Handler {
	want := sha256.Sum256([]byte(o.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		if !o.ownHost(r) {
			http.Error(w, "the Host header names another server; allowed_hosts in [http] lists the names of this one", http.StatusForbidden)
			return
		}
		if origins := r.Header["Origin"]; len(origins) > 0 {
			if len(origins) > 1 || !o.allowsOrigin(origins[0], r.Host) {
				http.Error(w, "this origin is not allowed; allowed_origins in [http] lists those that are", http.StatusForbidden)
				return
			}
			if share(w.Header(), r) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		} else if foreignPage(r) && !asks(r) {
			http.Error(w, "a page of another origin may not ask for this", http.StatusForbidden)
			return
		}
		if o.Token != "" && !carries(r.Header.Get("Authorization"), want) && !asks(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost reports whether the Host header is one by which this server can be
// reached knowingly. A name that an attacker's DNS points here is none. On a
// listener of every address every address passes: behind a port mapping the
// connection does not show the one that the client used, and no DNS can make an
// address point elsewhere.
func (o *HTTPOptions) ownHost(r *http.Request) bool {
	host := hostOf(r.Host)
	if Loopback(host) || slices.ContainsFunc(o.Hosts, func(own string) bool { return strings.EqualFold(own, host) }) {
		return true
	}
	asked, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if slices.ContainsFunc(o.Hosts, unspecified) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && own.Addr().Unmap() == asked.Unmap()
}

// unspecified reports whether host stands for every address of the machine.
func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

// hostOf cuts the port, and the brackets of an IPv6 address, off an authority.
func hostOf(authority string) string {
	if host, _, err := net.SplitHostPort(authority); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
}

// Loopback reports whether a host, with a port or without, is this machine by a name or an
// address that no DNS can make another's.
func Loopback(authority string) bool {
	host := hostOf(authority)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowsOrigin reports whether a page from origin may talk to this server: one
// that is configured, or one this server itself gave out. Another page of this
// machine may if it has the token to show; where no token is asked for, a page
// of any local port could call tools.
func (o *HTTPOptions) allowsOrigin(origin, host string) bool {
	if slices.Contains(o.AllowedOrigins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	if o.Token == "" {
		return u.Scheme == "http" && strings.EqualFold(u.Host, host) // https is served by another
	}
	return strings.EqualFold(u.Host, host) || Loopback(u.Hostname())
}

// foreignPage reports whether a browser says of a request without an Origin that a page
// of another origin had it made: images, scripts, frames and links need no permission,
// and a GET of /sse begins a session. Old browsers do not say it.
func foreignPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// share says in h that the page may read the response, and reports whether the
// request is only the browser's question whether it may ask.
func share(h http.Header, r *http.Request) (preflight bool) {
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	// As asked: Mcp-Param-* cannot be listed, and the origin is trusted.
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// carries reports whether the Authorization header holds the token with this
// hash. Hashes are compared so that neither time nor length tells anything.
func carries(authorization string, want [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	have := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}
