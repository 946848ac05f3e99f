package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
)

// dashboardAddr is the dashboard's default address. If it is in use, any free port is taken.
const dashboardAddr = "127.0.0.1:7778"

// dashboardFlags are the flags and arguments of dashboard.
type dashboardFlags struct {
	config, addr, http string
	open               bool
	files              []string
}

func dashboardCommand() *cobra.Command {
	f := new(dashboardFlags)
	c := &cobra.Command{
		Use:   "dashboard [FILE...]",
		Short: "Show servers and savings live in a browser",
		Long: `Serves a page that shows what your processes do and save today, until interrupted. Prints
its address, which contains a one-time code: open it in a browser within five minutes. The
browser then has access until it is closed.

FILE is an event log to show instead, plain or gzip; a directory stands for the files in
it, - for standard input.`,
		Example: `  mcpschedd dashboard --open
  mcpschedd dashboard --http http://127.0.0.1:7777`,
		RunE: func(c *cobra.Command, words []string) error {
			f.files = words
			return runDashboard(c.Context(), f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &f.config)
	c.Flags().StringVar(&f.addr, "addr", "", "serve at `HOST:PORT`, a loopback address (default\n"+dashboardAddr+", or any free port if it is in use)")
	c.Flags().BoolVar(&f.open, "open", false, "open the address in a browser")
	c.Flags().StringVar(&f.http, "http", "", "print the dashboard address of the proxy that serves HTTP\nat `URL`, and exit; the token is $MCPSCHEDD_TOKEN or, on\nthis machine, the one in the state directory")
	return c
}

// runDashboard serves the dashboard until ctx ends.
func runDashboard(ctx context.Context, f *dashboardFlags, stdout, stderr io.Writer) error {
	switch {
	case f.http != "" && (f.addr != "" || len(f.files) > 0):
		return usage("--http: that proxy has an address and figures of its own; leave out --addr and files")
	case len(f.files) > 0 && f.config != "":
		return usage("files are recorded events: leave out --config")
	case f.http != "":
		return f.printLink(ctx, stdout, stderr)
	}
	view, err := f.source(ctx, stderr)
	if err != nil {
		return err
	}
	l, err := f.listen(stderr)
	if err != nil {
		return err
	}
	page := dashboard.Handler(view, rand.Text()) // the token is never shown: browsers authenticate with a code
	if err := f.printAddress("http://"+l.Addr().String()+page.Address(), stdout, stderr); err != nil {
		l.Close()
		return err
	}
	say(stderr, "open the address above in a browser on this machine within five minutes; it works once. Press Ctrl-C to stop.")
	return serveUntil(ctx, l, ownHostOnly(page))
}

// printLink requests a dashboard address from a proxy that serves HTTP, and prints it.
func (f *dashboardFlags) printLink(ctx context.Context, stdout, stderr io.Writer) error {
	d, err := httpClientAt(f.http, f.config)
	if err != nil {
		return err
	}
	var in dashboard.Link
	if err := d.request(ctx, http.MethodPost, dashboard.CodePath, &in); err != nil {
		return err
	}
	if !strings.HasPrefix(in.Address, "/dashboard") {
		return fmt.Errorf("%s: not a dashboard address; another server responds there", d.base)
	}
	return f.printAddress(d.base+record.Printable(in.Address), stdout, stderr)
}

// printAddress prints the address and, with --open, opens it in a browser.
func (f *dashboardFlags) printAddress(address string, stdout, stderr io.Writer) error {
	if _, err := fmt.Fprintln(stdout, address); err != nil || !f.open {
		return err
	}
	c := exec.Command("xdg-open", address)
	switch runtime.GOOS {
	case "darwin":
		c = exec.Command("open", address)
	case "windows":
		c = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	}
	if err := c.Start(); err != nil {
		say(stderr, "warning: cannot open a browser: %v", err)
		return nil
	}
	go func() { // the command may run as long as the browser
		if err := failure(c); err != nil {
			say(stderr, "warning: cannot open a browser: %s: %v", c.Args[0], err)
		}
	}()
	return nil
}

// failure waits for a command, and returns why it failed: nil also if a signal has ended it, as Ctrl-C does.
func failure(c *exec.Cmd) error {
	if err := c.Wait(); c.ProcessState.ExitCode() > 0 {
		return err
	}
	return nil
}

// source returns a function that reads what the page shows: event logs, or today's events and the
// running processes. While these cannot be read, it shows why.
func (f *dashboardFlags) source(ctx context.Context, stderr io.Writer) (func() record.View, error) {
	if len(f.files) > 0 {
		v, err := record.ReadView(ctx, f.files)
		warnOfProblems(&v, stderr)
		return func() record.View { return v }, err
	}
	view, err := viewOfToday(f.config, false)
	return func() record.View {
		v, err := view()
		if err != nil {
			v.Problems = append(v.Problems, err.Error())
		}
		return v
	}, err
}

// listen listens on the address of the page, which must be a loopback address.
func (f *dashboardFlags) listen(stderr io.Writer) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", cmp.Or(f.addr, dashboardAddr))
	if err != nil {
		return nil, usage("--addr: %v", err)
	}
	if !at.IP.IsLoopback() {
		return nil, hinted{misused{fmt.Errorf("--addr: %s is not a loopback address", f.addr)}, "the dashboard is for this machine only; over a network, mcpschedd serve --http serves it at /dashboard"}
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil && f.addr == "" {
		say(stderr, "%s is in use, perhaps by another dashboard: using another port", dashboardAddr)
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return l, err
}

// ownHostOnly rejects requests with a Host that is not a loopback name, against DNS rebinding: a
// foreign name that resolves to this machine would give its pages our origin.
func ownHostOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !front.Loopback(r.Host) {
			http.Error(w, "the Host header names another server", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
