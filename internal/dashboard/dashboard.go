// Package dashboard shows what the proxy does on one page in a browser.
//
// The one idea: the page is one document that never changes, and everything on it is
// drawn from one [telemetry.View], asked for once a second while somebody looks. What
// the view says was written by strangers (names of tools, hosts, sessions), so it is
// only ever put onto the page as text: the browser is told to refuse anything else.
//
//	mux.Handle("/dashboard", dashboard.Handler(dashboard.Options{View: view, Token: token}))
//	mux.Handle("/dashboard/", …)
//
// It leaves out the figures themselves (telemetry), and whether a request may reach
// this machine at all: the names of its host are whoever serves it to check.
package dashboard

import (
	"net/http"
	"time"

	"mcpschedd/internal/telemetry"
)

// Options say what is shown, and to whom.
type Options struct {
	View  func() telemetry.View // what there is to see now; called from several goroutines
	Token string                // who looks must know it; "": everyone may look
	Title string                // of the page; default "mcpschedd"

	From, To time.Time // of recorded events, which the view is of; zero: it goes on, and is asked for again
}

// The paths that are served.
const (
	pagePath = "/dashboard"
	viewPath = "/dashboard/view.json"
)

// Handler serves the page under /dashboard and what it shows under
// /dashboard/view.json, a [telemetry.View] as JSON; all else is not found.
//
// A token is taken as "Authorization: Bearer TOKEN", or as /dashboard?token=TOKEN,
// which leaves a cookie that stands for it and goes on to the address without.
func Handler(o Options) http.Handler {
	if o.Title == "" {
		o.Title = "mcpschedd"
	}
	page, guard := newPage(o.Title), newGuard(o.Token)
	closed, wrong := newDoor(o.Title, "This page needs a token."), newDoor(o.Title, "That is not its token.")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secluded(w.Header())
		asked := r.URL.Path == pagePath && r.URL.Query().Has("token")
		switch {
		case r.URL.Path != pagePath && r.URL.Path != viewPath:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		case asked && guard.knows(r.URL.Query().Get("token")):
			guard.admit(w)
		case asked:
			wrong.serve(w, r, http.StatusUnauthorized)
		case !guard.admits(r) && r.URL.Path == pagePath:
			closed.serve(w, r, http.StatusUnauthorized)
		case !guard.admits(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is required", http.StatusUnauthorized)
		case r.URL.Path == viewPath:
			writeView(w, r, o.shown())
		default:
			page.serve(w, r, http.StatusOK)
		}
	})
}

// shown is a view as the page is given it.
type shown struct {
	telemetry.View
	Recorded *span `json:"recorded,omitempty"` // nil: it goes on
}

// span is one of time, in microseconds since 1970.
type span struct {
	From int64 `json:"from_us"`
	To   int64 `json:"to_us"`
}

func (o *Options) shown() shown {
	s := shown{View: o.View()}
	if !o.To.IsZero() {
		s.Recorded = &span{o.From.UnixMicro(), o.To.UnixMicro()}
	}
	return s
}

// secluded says of every answer that it is for this page alone: not kept, not framed,
// not embedded, not told to others, and not guessed at.
func secluded(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", nothing)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
