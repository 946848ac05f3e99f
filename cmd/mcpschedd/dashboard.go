package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/record"
)

const usageDashboard = `usage: mcpschedd dashboard [--config FILE] [--addr HOST:PORT] [--events FILE...]
       mcpschedd dashboard --http URL [--config FILE]

Serves a page that shows what your running processes do and what they save, until
interrupted. Prints its address, which holds a code: open it in a browser within
five minutes. It works once; the browser may then look until it is closed.

  --config FILE      whose state_dir counts (default: see mcpschedd help)
  --addr HOST:PORT   where to serve, on a loopback address (default 127.0.0.1:0,
                     any free port)
  --events FILE...   show recorded events instead, plain or gzip; a folder stands
                     for what is in it, - for standard input
  --http URL         print the address of the page of a proxy that serves HTTP, such
                     as http://127.0.0.1:7777, and end. On this machine the token is
                     found in the state folder; else put it into $MCPSCHEDD_TOKEN
`

// dashboardFlags are its command line.
type dashboardFlags struct {
	config, addr, http string
	events             []string
}

// runDashboard serves the dashboard until ctx ends.
func runDashboard(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parseDashboard(args, stdout)
	if err != nil {
		return err
	}
	if f.http != "" {
		return f.printLink(ctx, stdout)
	}
	o, err := f.options(ctx, stderr)
	if ctx.Err() != nil {
		return nil // interrupted while it read, which is how this command ends
	}
	if err != nil {
		return err
	}
	l, err := listenLoopback(f.addr)
	if err != nil {
		return err
	}
	o.Token = rand.Text() // never shown: browsers come with a code
	page := dashboard.Handler(o)
	if _, err := fmt.Fprintf(stdout, "http://%s%s\n", l.Addr(), page.Address()); err != nil {
		l.Close()
		return err
	}
	fmt.Fprintln(stderr, "mcpschedd: open the address above in a browser of this machine within five minutes, once; Ctrl-C ends it")
	return serveUntil(ctx, l, ownHostOnly(page))
}

// printLink asks a proxy that serves HTTP for an address of its page.
func (f *dashboardFlags) printLink(ctx context.Context, stdout io.Writer) error {
	d, err := (&statsFlags{config: f.config, http: f.http}).daemon()
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(d.url, "/stats")
	d.url = base + dashboard.CodePath
	var in dashboard.Link
	if err := d.ask(ctx, http.MethodPost, &in); err != nil {
		return err
	}
	if !strings.HasPrefix(in.Address, "/dashboard") {
		return fmt.Errorf("%s: no address of a dashboard; something else answers there", d.url)
	}
	_, err = fmt.Fprintln(stdout, base+plain(in.Address))
	return err
}

// options say what there is to see: of recorded events, or of running processes.
func (f *dashboardFlags) options(ctx context.Context, stderr io.Writer) (dashboard.Options, error) {
	if len(f.events) > 0 {
		return recordedOptions(ctx, f.events, stderr)
	}
	d, err := (&statsFlags{config: f.config}).folder()
	if err != nil {
		return dashboard.Options{}, err
	}
	if blind := d.blind(); blind != "" {
		fmt.Fprintf(stderr, "mcpschedd: warning: %s\n", plain(blind))
	}
	return dashboard.Options{View: viewOfRunning(d)}, nil
}

// recordedOptions reads files once. The time is that of their last event.
func recordedOptions(ctx context.Context, names []string, stderr io.Writer) (dashboard.Options, error) {
	r := newReading(new(statsFlags), stderr)
	if err := r.files(ctx, names); err != nil {
		return dashboard.Options{}, err
	}
	if text := unended(r.killed); text != "" {
		r.tally.Problem(text)
	}
	v := r.tally.View(r.last)
	return dashboard.Options{View: func() record.View { return v }, From: r.first, To: r.last}, nil
}

// viewOfRunning reads on whenever somebody looks, at most once a second: while nobody
// does, nothing happens.
func viewOfRunning(d folder) func() record.View {
	var mu sync.Mutex // one reads at a time
	r, tail := newReading(new(statsFlags), nil), record.NewTail(d.path)
	var read time.Time
	said := d.blind()
	if said != "" {
		r.tally.Problem(said)
	}
	return func() record.View {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(read) >= time.Second {
			text := ""
			if _, err := r.follow(d, tail); err != nil {
				text = err.Error()
			} else {
				text = unended(r.killed)
			}
			if text != "" && text != said {
				said = text
				r.tally.Problem(said)
			}
			read = now
		}
		return r.tally.View(time.Now())
	}
}

// listenLoopback listens where only this machine can ask.
func listenLoopback(addr string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, &usageError{text: "--addr: " + err.Error(), usage: usageDashboard}
	}
	if !at.IP.IsLoopback() {
		return nil, hinted{misused{fmt.Errorf("--addr: %s is not a loopback address", addr)}, "the dashboard is for this machine; over a network, mcpschedd serve --http has it at /dashboard"}
	}
	return net.ListenTCP("tcp", at)
}

// ownHostOnly refuses names that somebody's DNS made point here: to a browser a page
// under such a name would be of the same origin as ours.
func ownHostOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if !strings.EqualFold(host, "localhost") && (err != nil || !ip.Unmap().IsLoopback()) {
			http.Error(w, "the Host header names another server", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveUntil serves until ctx ends, and lets answers that have begun come to an end.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		srv.Close() // somebody does not take what was asked for
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// parseDashboard reads the command line. As with replay, --events takes all files that
// stand behind it.
func parseDashboard(args []string, stdout io.Writer) (*dashboardFlags, error) {
	f := &dashboardFlags{addr: "127.0.0.1:0"}
	fs := flag.NewFlagSet("dashboard", flag.ContinueOnError)
	files := false  // the last flag was --events
	placed := false // there was --addr
	fs.Func("events", "", func(s string) error { f.events, files = append(f.events, s), true; return nil })
	fs.Func("addr", "", func(s string) error { f.addr, files, placed = s, false, true; return nil })
	fs.Func("http", "", func(s string) error { f.http, files = s, false; return nil })
	fs.Func("config", "", func(s string) error { f.config, files = s, false; return nil })
	for rest := args; ; rest = fs.Args()[1:] {
		if err := parse(fs, rest, usageDashboard, stdout); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		if !files {
			return nil, noArguments(fs, usageDashboard)
		}
		f.events = append(f.events, fs.Arg(0))
	}
	if f.http != "" && (placed || len(f.events) > 0) {
		return nil, &usageError{text: "--http: that proxy says where it serves and what it shows; leave out --addr and --events", usage: usageDashboard}
	}
	if len(f.events) > 0 && f.config != "" {
		return nil, &usageError{text: "--config: it says where running processes keep their events; leave it out, or --events", usage: usageDashboard}
	}
	return f, nil
}
