// Package dashboard shows what the proxy does on one page in a browser.
//
// The one idea: the page is one document that never changes, and everything on it is
// drawn from one [record.View], asked for once a second while a browser shows it. What
// the view says was written by servers and clients (names of tools, hosts, sessions), so it is
// only ever put onto the page as text: the browser is told to refuse anything else.
//
//	page := dashboard.Handler(dashboard.Options{View: view, Token: token})
//	mux.Handle("/dashboard", page)
//	mux.Handle("/dashboard/", page)
//	fmt.Println("http://127.0.0.1:7777" + page.Address())
//
// It leaves out the figures themselves (record), and whether a request may reach
// this machine at all: the server in front of it checks the names of its host.
package dashboard

import (
	"net/http"
	"time"

	"mcpschedd/internal/record"
)

// Options say what is shown, and what a request must bear.
type Options struct {
	View  func() record.View // what there is to see now; called from several goroutines
	Token string             // what a request must bear, or a code in its place; "": none is asked for
	Title string             // of the page; default "mcpschedd"
	Since string             // when the figures begin, in a sentence that they end: "today"; "" says nothing of it

	From, To time.Time // of recorded events, which the view is of; zero: it goes on, and is asked for again
}

// The paths that are served.
const (
	pagePath = "/dashboard"
	viewPath = "/dashboard/view.json"
	CodePath = "/dashboard/code"
)

// Page is the handler of the dashboard.
type Page struct {
	o                  Options
	guard              *guard
	page, closed, used *document
	routes             http.ServeMux
}

// Address is the path and query that open the page in a browser, once and within
// five minutes.
func (p *Page) Address() string {
	if p.guard.open {
		return pagePath
	}
	return pagePath + "?code=" + p.guard.codes.issue()
}

// Link is the answer to a POST of [CodePath].
type Link struct {
	Address string `json:"address"` // path and query, as from [Page.Address]
}

// Handler serves the page under /dashboard, what it shows under
// /dashboard/view.json, a [record.View] as JSON, and under /dashboard/code an
// [Link] for a POST that bears the token; all else is not found.
//
// A request bears the token ("Authorization: Bearer TOKEN"), or is a browser's with a
// code, /dashboard?code=CODE, which sets a cookie and redirects to the address without.
// The token is never part of an address: browsers keep addresses and send them on.
func Handler(o Options) *Page {
	if o.Title == "" {
		o.Title = "mcpschedd"
	}
	p := &Page{
		o: o, guard: newGuard(o.Token), page: newPage(o.Title),
		closed: newNotice(o.Title, "This page opens by an address with a code in it, which works once."),
		used:   newNotice(o.Title, "This code has been used, or is too old."),
	}
	p.routes.HandleFunc("GET "+pagePath, p.servePage)
	p.routes.HandleFunc("GET "+viewPath, func(w http.ResponseWriter, r *http.Request) {
		if permits(w, p.guard.admits(r)) {
			writeJSON(w, p.o.shown())
		}
	})
	p.routes.HandleFunc("POST "+CodePath, func(w http.ResponseWriter, r *http.Request) {
		if permits(w, p.guard.open || p.guard.bears(r)) { // a cookie is not enough to make a code
			writeJSON(w, Link{p.Address()})
		}
	})
	return p
}

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	p.routes.ServeHTTP(w, r)
}

// servePage shows the page to a browser that is admitted. One that brings a code is, once; a
// HEAD request, by which programs look at addresses, does not spend the code.
func (p *Page) servePage(w http.ResponseWriter, r *http.Request) {
	query, admitted := r.URL.Query(), p.guard.admits(r)
	switch {
	case query.Has("code") && r.Method == http.MethodGet && (p.guard.codes.redeem(query.Get("code")) || admitted):
		p.guard.admit(w)
	case query.Has("code") && r.Method == http.MethodGet:
		p.used.serve(w, http.StatusUnauthorized)
	case admitted:
		p.page.serve(w, http.StatusOK)
	default:
		p.closed.serve(w, http.StatusUnauthorized)
	}
}

// permits refuses a request that does not bear what it must.
func permits(w http.ResponseWriter, bears bool) bool {
	if !bears {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is required", http.StatusUnauthorized)
	}
	return bears
}

// shown is a view as the page is given it, with what is said of it in the words of the record.
type shown struct {
	record.View
	Saved    string           `json:"saved"`
	Wrong    []record.Warning `json:"wrong"`
	Recorded *span            `json:"recorded,omitempty"` // nil: it goes on
}

// span is one of time, in microseconds since 1970.
type span struct {
	From int64 `json:"from_us"`
	To   int64 `json:"to_us"`
}

func (o *Options) shown() shown {
	s := shown{View: o.View()}
	s.Saved, s.Wrong = s.Stats.Saved(o.Since), s.Stats.Warnings()
	switch {
	case !o.To.IsZero():
		s.Recorded = &span{o.From.UnixMicro(), o.To.UnixMicro()}
	case len(s.Stats.Running) == 0:
		none := record.Warning{Message: "No mcpschedd is running: your client starts it once it is configured to.", Fix: "mcpschedd import"}
		s.Wrong = append([]record.Warning{none}, s.Wrong...)
	}
	return s
}

// setHeaders has browsers neither store an answer, nor frame or embed it elsewhere, nor send
// its address on, nor take it for another type than it says.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", noContent)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
