// Package dashboard shows what the proxy does on one page in a browser.
//
// The one idea: the page is one document that never changes, and everything on it is
// drawn from one [record.View], asked for once a second while a browser shows it. What
// the view says was written by strangers (names of tools, hosts, sessions), so it is
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
	return &Page{
		o: o, guard: newGuard(o.Token), page: newPage(o.Title),
		closed: newDoor(o.Title, "This page opens by an address with a code in it, which works once."),
		used:   newDoor(o.Title, "This code has been used, or is too old."),
	}
}

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secluded(w.Header())
	method := http.MethodGet
	switch r.URL.Path {
	case CodePath:
		method = http.MethodPost
	case pagePath, viewPath:
	default:
		http.NotFound(w, r)
		return
	}
	head := r.Method == http.MethodHead && method == http.MethodGet
	code := r.URL.Query().Get("code")
	asked := r.URL.Path == pagePath && r.URL.Query().Has("code") && !head // what only looks at an address spends nothing
	switch {
	case r.Method != method && !head:
		allowed := map[string]string{http.MethodGet: "GET, HEAD", http.MethodPost: "POST"}[method]
		w.Header().Set("Allow", allowed)
		http.Error(w, "only "+allowed, http.StatusMethodNotAllowed)
	case asked && (p.guard.codes.redeem(code) || p.guard.admits(r)):
		p.guard.admit(w)
	case asked:
		p.used.serve(w, r, http.StatusUnauthorized)
	case r.URL.Path == CodePath && (p.guard.open || p.guard.bears(r)): // a cookie is not enough to make a code
		writeJSON(w, r, Link{p.Address()})
	case r.URL.Path == viewPath && p.guard.admits(r):
		writeJSON(w, r, p.o.shown())
	case r.URL.Path == pagePath && p.guard.admits(r):
		p.page.serve(w, r, http.StatusOK)
	case r.URL.Path == pagePath:
		p.closed.serve(w, r, http.StatusUnauthorized)
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is required", http.StatusUnauthorized)
	}
}

// shown is a view as the page is given it, with what is said of it in the words of the record.
type shown struct {
	record.View
	Saved    string         `json:"saved"`
	Wrong    []record.Wrong `json:"wrong"`
	Recorded *span          `json:"recorded,omitempty"` // nil: it goes on
}

// span is one of time, in microseconds since 1970.
type span struct {
	From int64 `json:"from_us"`
	To   int64 `json:"to_us"`
}

func (o *Options) shown() shown {
	s := shown{View: o.View()}
	s.Saved, s.Wrong = s.Stats.Saved(o.Since), s.Stats.Wrong()
	switch {
	case !o.To.IsZero():
		s.Recorded = &span{o.From.UnixMicro(), o.To.UnixMicro()}
	case len(s.Stats.Running) == 0:
		none := record.Wrong{What: "No mcpschedd is running: your client starts it once it is configured to.", Mend: "mcpschedd import"}
		s.Wrong = append([]record.Wrong{none}, s.Wrong...)
	}
	return s
}

// secluded says of every answer that it is for this page alone: not kept, not framed,
// not embedded, not told to others, and taken for nothing but what it says it is.
func secluded(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", nothing)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
