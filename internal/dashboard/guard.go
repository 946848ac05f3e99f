package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"mcpschedd/internal/age"
)

// Limits of one-time codes.
const (
	codeLife  = 5 * time.Minute
	codesKept = 16 // unused ones; the oldest is dropped first
)

// guard decides which requests are authorised.
type guard struct {
	open   bool
	token  [sha256.Size]byte                         // hash; comparing hashes leaks neither the token's bytes nor its length
	name   string                                    // of the cookie
	cookie string                                    // its value
	codes  *lru.Cache[[sha256.Size]byte, age.Moment] // hash of a one-time code that was not used → when it was issued
}

// newGuard derives the cookie's name and value from the token, so that the cookie stays valid
// across restarts, as the token does, and does not reveal the token. Browsers share cookies among
// all ports of a host, so the name distinguishes proxies.
func newGuard(token string) *guard {
	mac := func(what string) string {
		h := hmac.New(sha256.New, []byte(token))
		h.Write([]byte(what))
		return hex.EncodeToString(h.Sum(nil))
	}
	codes, _ := lru.New[[sha256.Size]byte, age.Moment](codesKept) // fails only for a size below 1
	return &guard{
		open:   token == "",
		token:  sha256.Sum256([]byte(token)),
		name:   "mcpschedd-" + mac("name of the dashboard's cookie")[:12],
		cookie: mac("value of the dashboard's cookie"),
		codes:  codes,
	}
}

// issue returns a new code. An address contains a code and not the token, so that a browser's
// history or a log does not leak access.
func (g *guard) issue() string {
	code := rand.Text()
	g.codes.Add(sha256.Sum256([]byte(code)), age.Now())
	return code
}

// redeem reports whether a code is valid, and removes it.
func (g *guard) redeem(code string) bool {
	sum := sha256.Sum256([]byte(code))
	issued, known := g.codes.Peek(sum)
	return known && g.codes.Remove(sum) && age.Now().Since(issued) < codeLife
}

// bears reports whether the request has the token in its Authorization header, or none is
// required.
func (g *guard) bears(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	have := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return g.open || strings.EqualFold(scheme, "Bearer") && hmac.Equal(have[:], g.token[:])
}

// admits reports whether the request is authorised to read the view.
func (g *guard) admits(r *http.Request) bool {
	return g.bears(r) || slices.ContainsFunc(r.CookiesNamed(g.name), func(c *http.Cookie) bool {
		return hmac.Equal([]byte(c.Value), []byte(g.cookie))
	})
}

// admit sets the cookie, which lasts until the browser is closed, and redirects to the address
// without the code.
func (g *guard) admit(w http.ResponseWriter) {
	if !g.open {
		http.SetCookie(w, &http.Cookie{
			Name: g.name, Value: g.cookie, Path: pagePath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	}
	w.Header().Set("Location", pagePath)
	w.WriteHeader(http.StatusSeeOther)
}
