package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// guard knows which requests may see the page.
type guard struct {
	open   bool
	token  [sha256.Size]byte // hashed, so that comparing it tells neither its bytes nor its length
	name   string            // of the cookie
	cookie string            // what it holds
	codes  codes
}

// newGuard makes the cookie from the token, so that it outlives a restart as the
// token does, and the token cannot be read off it. Browsers keep the cookies of all
// ports of a machine in one place: the name tells those of two proxies apart.
func newGuard(token string) *guard {
	mac := func(what string) string {
		h := hmac.New(sha256.New, []byte(token))
		h.Write([]byte(what))
		return hex.EncodeToString(h.Sum(nil))
	}
	return &guard{
		open:   token == "",
		token:  sha256.Sum256([]byte(token)),
		name:   "mcpschedd-" + mac("name of the dashboard's cookie")[:12],
		cookie: mac("value of the dashboard's cookie"),
	}
}

// knows reports whether that is the token.
func (g *guard) knows(token string) bool {
	have := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return g.open || hmac.Equal(have[:], g.token[:])
}

// bears reports whether the request has the token with it.
func (g *guard) bears(r *http.Request) bool {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return ok && strings.EqualFold(scheme, "Bearer") && g.knows(token)
}

// admits reports whether the request may look.
func (g *guard) admits(r *http.Request) bool {
	if g.open {
		return true
	}
	if r.Header.Get("Authorization") != "" {
		return g.bears(r)
	}
	for _, c := range r.CookiesNamed(g.name) {
		if hmac.Equal([]byte(c.Value), []byte(g.cookie)) {
			return true
		}
	}
	return false
}

// admit lets a browser that had a code look until it is closed, and sends it on to
// the address without.
func (g *guard) admit(w http.ResponseWriter) {
	if !g.open {
		http.SetCookie(w, &http.Cookie{
			Name: g.name, Value: g.cookie, Path: pagePath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	}
	w.Header().Set("Location", pagePath)
	w.WriteHeader(http.StatusSeeOther)
}
