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

// protect returns a handler that protects next against web pages which attack a local
// server, and against clients without the token. It passes a request to next if its Host
// is one of ours, its Origin is allowed and it has the token; /healthz needs none of these.
// ownAuth reports whether the request is for a page that checks the token itself.
func (o *HTTPOptions) protect(next http.Handler, ownAuth func(*http.Request) bool) http.Handler {
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
			if setCORS(w.Header(), r) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		} else if crossSite(r) && !ownAuth(r) {
			http.Error(w, "requests from pages of another origin are not allowed", http.StatusForbidden)
			return
		}
		if o.Token != "" && !hasToken(r.Header.Get("Authorization"), want) && !ownAuth(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required (Authorization: Bearer TOKEN); the log at start-up names its file", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost reports whether the Host header names this server: loopback, a configured
// host, or the address of the connection. Any other name is rejected, because an
// attacker's DNS can point it here (DNS rebinding). A listener on all addresses accepts
// every address: behind a port mapping the connection does not show the address that the
// client used, and an address cannot be rebound by DNS.
func (o *HTTPOptions) ownHost(r *http.Request) bool {
	host := hostOf(r.Host)
	if Loopback(host) || slices.ContainsFunc(o.Hosts, func(own string) bool { return strings.EqualFold(own, host) }) {
		return true
	}
	addr, err := netip.ParseAddr(host)
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
	return err == nil && own.Addr().Unmap() == addr.Unmap()
}

// unspecified reports whether host is 0.0.0.0 or ::, all addresses of the machine.
func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

// hostOf returns the host of an authority, without the port and the brackets of an IPv6
// address.
func hostOf(authority string) string {
	if host, _, err := net.SplitHostPort(authority); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
}

// Loopback reports whether an authority, with or without a port, is localhost or a
// loopback address.
func Loopback(authority string) bool {
	host := hostOf(authority)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowsOrigin reports whether a page from origin may send requests: origin is
// configured, or it is this server's own. If a token is required, any origin on loopback
// may as well; without a token, a page from any local port could call tools.
func (o *HTTPOptions) allowsOrigin(origin, host string) bool {
	if slices.Contains(o.AllowedOrigins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if o.Token == "" {
		return u.Scheme == "http" && strings.EqualFold(u.Host, host) // this server does not serve https
	}
	return strings.EqualFold(u.Host, host) || Loopback(u.Hostname())
}

// crossSite reports whether a browser marks a request without Origin as made by a page
// of another origin. Images, scripts, frames and links need no CORS permission, and a GET
// of /sse would start a session. Old browsers do not send the header.
func crossSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// setCORS sets headers that let the page read the response, and reports whether the
// request is a preflight.
func setCORS(h http.Header, r *http.Request) (preflight bool) {
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	// All requested headers: Mcp-Param-* cannot be listed, and the origin is trusted.
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// hasToken reports whether the Authorization header has the token with the given hash.
// It compares hashes so that timing reveals neither content nor length of the token.
func hasToken(authorization string, want [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	have := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}
