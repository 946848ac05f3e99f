// Package dashboard serves a web page that shows what the proxy does.
//
// The page is one static document. It draws everything from one [record.View] and what package
// record concludes from it, which it fetches once a second, or less often after failures, while a
// browser shows it. Names in the view (tools, hosts, sessions) come from
// servers and clients, so the page inserts them only as text, and its content security policy
// forbids anything else.
//
//	page := dashboard.Handler(view, token)
//	mux.Handle("/dashboard", page)
//	mux.Handle("/dashboard/", page)
//	fmt.Println("http://127.0.0.1:7777" + page.Address())
//
// Package record computes the figures. The server in front of the handler must check the Host
// header.
package dashboard

import (
	"net/http"

	"mcpschedd/internal/record"
)

// Paths of the handler.
const (
	pagePath = "/dashboard"
	viewPath = "/dashboard/view.json"
	CodePath = "/dashboard/code"
)

// Page is the handler of the dashboard.
type Page struct {
	view         func() record.View
	guard        *guard
	page, closed *document
	routes       http.ServeMux
}

// Address returns a path and query that open the page in a browser, once and within five
// minutes.
func (p *Page) Address() string {
	if p.guard.open {
		return pagePath
	}
	return pagePath + "?code=" + p.guard.issue()
}

// Link is the response to a POST of [CodePath].
type Link struct {
	Address string `json:"address"` // path and query, as from [Page.Address]
}

// shown is the content of view.json: a view, and what package record says about it.
type shown struct {
	Saved    string                  `json:"saved"`
	Warnings []record.Warning        `json:"wrong"`
	Servers  []record.UpstreamStatus `json:"servers"`
	record.View
}

// Handler returns a handler of /dashboard (the page), /dashboard/view.json (a [record.View] as
// JSON, with its savings, warnings and servers) and POST /dashboard/code (a [Link], for requests with the token). Any other path is not
// found.
//
// A request is authorised by the token ("Authorization: Bearer TOKEN") or by a cookie. A code in
// the query, /dashboard?code=CODE, sets the cookie and redirects to /dashboard. The token is
// never part of an address: browsers keep addresses and send them on.
//
// view is called by several goroutines. An empty token means no authentication.
func Handler(view func() record.View, token string) *Page {
	p := &Page{view: view, guard: newGuard(token), page: newPage(), closed: newDocument(read("notice.html"), "")}
	p.routes.HandleFunc("GET "+pagePath, p.servePage)
	p.routes.HandleFunc("GET "+viewPath, func(w http.ResponseWriter, r *http.Request) {
		if permits(w, p.guard.admits(r)) {
			v := p.view()
			writeJSON(w, shown{v.Saved(), v.Warnings(), v.Stats.Servers(), v})
		}
	})
	p.routes.HandleFunc("POST "+CodePath, func(w http.ResponseWriter, r *http.Request) {
		if permits(w, p.guard.bears(r)) { // a cookie is not enough to make a code
			writeJSON(w, Link{p.Address()})
		}
	})
	return p
}

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	p.routes.ServeHTTP(w, r)
}

// servePage serves the page to an authorised browser, and exchanges a code for a cookie. A HEAD
// request, with which programs preview addresses, does not redeem the code.
func (p *Page) servePage(w http.ResponseWriter, r *http.Request) {
	query, admitted := r.URL.Query(), p.guard.admits(r)
	switch {
	case query.Has("code") && r.Method == http.MethodGet && (p.guard.redeem(query.Get("code")) || admitted):
		p.guard.admit(w)
	case admitted:
		p.page.serve(w, http.StatusOK)
	default:
		p.closed.serve(w, http.StatusUnauthorized)
	}
}

// permits responds with 401 if authorized is false, and returns authorized.
func permits(w http.ResponseWriter, authorized bool) bool {
	if !authorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is required", http.StatusUnauthorized)
	}
	return authorized
}

// setHeaders forbids browsers to store or frame the response, embed it in other sites, send its
// address in Referer, or sniff its type.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", noContent)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
