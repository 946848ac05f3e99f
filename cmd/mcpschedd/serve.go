package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
)

// heapBallast (bytes) is an allocation that lets a proxy with a small heap produce more garbage
// between collections. Measured with 32 concurrent calls of 1 KB: with 1 MiB a call takes 1.06
// times the processor time, with 8 MiB 0.98 times, for 2 MiB more resident after calls of 100 KB.
const heapBallast = 4 << 20

// serveFlags are the flags of serve.
type serveFlags struct{ config, http, auth, only string }

func serveCommand() *cobra.Command {
	var o serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy for one client on stdio, or over HTTP",
		Long: `Runs the proxy for one client on stdin and stdout. Clients normally start mcpschedd
connect instead, which shares one daemon among all of them. With --http it serves any
number of clients at /mcp and /mcp/NAME (streamable HTTP) and /sse (the older transport),
and has /dashboard, /metrics, /stats and /healthz.`,
		Example: `  mcpschedd serve
  mcpschedd serve --http 127.0.0.1:7777`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o, c.ErrOrStderr()) },
	}
	configFlag(c, &o.config)
	c.Flags().StringVar(&o.http, "http", "", "serve HTTP on `ADDR`, such as 127.0.0.1:7777, instead of stdio")
	c.Flags().StringVar(&o.auth, "auth", "", "`MODE` is token (default): clients send the generated bearer\ntoken, whose file is logged at start-up; or none: no token, and\nloopback addresses only")
	c.Flags().StringVar(&o.only, "only", "", "on stdio: only the server `NAME`, under its own tool names")
	return c
}

// check validates the flags.
func (o *serveFlags) check() error {
	if o.auth != "" && o.auth != "token" && o.auth != "none" {
		return usage("--auth: want token or none, have %q", o.auth)
	}
	if o.auth != "" && o.http == "" {
		return usage("--auth is for HTTP: want --http ADDR too, such as 127.0.0.1:7777")
	}
	if o.only != "" && o.http != "" {
		return usage("--only is for stdio; over HTTP the path /mcp/%s does the same", o.only)
	}
	return nil
}

// servedProxy is the proxy of one workplace or, over HTTP, of all clients, with its configuration, log
// and state directory.
type servedProxy struct {
	flags    serveFlags
	config   *config.Config
	mistakes *config.Error // mistakes in the file; nil if none
	dir      state.Dir
	at       workplace
	log      *slog.Logger
	output   *logOutput
	srv      *proxy.Server
	tracer   *record.OTLP

	key     string      // of the workplace; like the fields below, used and guarded by the daemon
	inode   os.FileInfo // the workplace's directory, which may be replaced by another one at the same path
	clients int         // clients that it serves
	ending  *time.Timer // closes the proxy when it has had no clients for a while; nil before the first has left
}

// needsToken reports whether HTTP clients must send the token. Only the flag turns it off, so that neither a
// mistake in the configuration nor an earlier copy of it can.
func (s *servedProxy) needsToken() bool { return s.flags.auth != "none" }

// noteTerminal says what a command that serves a client on stdin waits for, if a user has started it.
func noteTerminal(stderr io.Writer) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		say(stderr, "waiting for an MCP client on stdin, which is this terminal; press Ctrl-D to stop. mcpschedd import configures a client to start it.")
	}
}

// serve runs the proxy until its client disconnects or ctx is cancelled.
func serve(ctx context.Context, f serveFlags, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.http == "" {
		noteTerminal(stderr)
	}
	s, o, closeCommon, err := prepare(f, stderr)
	if err != nil {
		return err
	}
	defer closeCommon()
	guard := upstream.NewGuard(s.log)
	if err := s.open(ctx, o, guard); err != nil {
		return err
	}
	return runUntilSignal(ctx, s.log, s.srv, func() error {
		defer guard.Close()
		defer s.close(context.WithoutCancel(ctx))
		return s.run(ctx, o)
	})
}

// prepare reads the configuration, and returns a proxy that is not open yet, its options with the
// cache and limits of this process, and a function that closes those.
func prepare(f serveFlags, stderr io.Writer) (s *servedProxy, o proxy.Options, closeCommon func(), err error) {
	becomeFullToExport(f.http != "")
	s = &servedProxy{flags: f, at: ownWorkplace()}
	if err = s.load(stderr); err == nil {
		o, err = s.options()
	}
	if err == nil {
		o.Common, closeCommon, err = newCommon(o, s.config, s.at)
	}
	return s, o, closeCommon, err
}

// open creates the proxy, and starts the exports that the OTEL_* variables configure.
func (s *servedProxy) open(ctx context.Context, o proxy.Options, guard *upstream.Guard) (err error) {
	if s.tracer, err = export(ctx, s.log, &o, func() *proxy.Server { return s.srv }); err != nil {
		return hinted{misused{fmt.Errorf("OpenTelemetry: %w", err)}, "the OTEL_* variables set the destination"}
	}
	s.srv = proxy.New(o, guard)
	if s.mistakes != nil {
		s.srv.Reject(s.mistakes)
	}
	return nil
}

// close closes the proxy, and ends the exports.
func (s *servedProxy) close(ctx context.Context) {
	s.srv.Close()
	s.tracer.Close(ctx)
}

// unusedLearned is the age at which learned state that no session has changed is removed: each directory, and
// each value of a server's variables, has files of its own. They may be so many that no client must wait for it.
const unusedLearned = 180 * 24 * time.Hour

// withMistakes is logged when [config.Error.Salvage] decides what is in force.
const withMistakes = "configuration has mistakes; what they affect is off"

// load reads the configuration, and opens the state directory and the log.
func (s *servedProxy) load(stderr io.Writer) (err error) {
	if s.config, s.dir, s.mistakes, err = loadServed(s.flags.config, stateDir); err != nil {
		return err
	}
	if s.log, s.output, err = openLog(s.config.Log, daemon.OpenLog(s.dir.Path(""), daemon.ProgramLog), daemon.Stderr(stderr)); err != nil {
		return err
	}
	if s.mistakes != nil {
		s.log.Error(withMistakes, "err", s.mistakes)
	} else {
		s.saveLastGood(s.config)
	}
	for _, w := range s.config.Warnings {
		s.log.Warn(w.String())
	}
	if s.dir.Exposed("", 0o022) {
		s.log.Warn("other users can replace files in the state directory, such as the token and the kept configuration: chmod 700 it", "path", s.dir.Path(""))
	}
	s.at.offers = offeredIn("")
	if s.flags.http == "" {
		s.at.offers = offeredIn(s.at.dir())
	}
	return nil
}

// options returns the options of the proxy.
func (s *servedProxy) options() (proxy.Options, error) {
	o := proxyOptions(s.at, s.config, s.dir, s.log)
	transport := "stdio"
	if s.at.shares {
		transport = record.Daemon
	}
	if addr := s.flags.http; addr != "" {
		transport = record.HTTP
		if host, _, err := net.SplitHostPort(addr); err == nil {
			o.HTTP.Hosts = append(slices.Clone(o.HTTP.Hosts), cmp.Or(host, "::"))
		}
		if s.needsToken() {
			var err error
			if o.HTTP.Token, err = token(s.dir); err != nil {
				return o, err
			}
			if s.dir.Exposed(tokenFile, 0o077) {
				s.log.Warn("other users can read or change the token: delete its file and restart, for a new one", "path", s.dir.Path(tokenFile))
			}
		}
	}
	s.completeRecord(&o.Record, transport)
	return o, nil
}

// run serves, and applies changes of the configuration.
func (s *servedProxy) run(ctx context.Context, o proxy.Options) error {
	if only := s.flags.only; only != "" && !s.srv.Has(only) {
		return hinted{misused{fmt.Errorf("--only: no server %q is configured and enabled", only)}, "the configuration is " + orDefaults(s.config.Path)}
	}
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.watch(ctx, func() []workplace { return []workplace{s.at} }, nil, s.applyConfig) })
	background.Go(func() { keepBallast(ctx) })
	background.Go(func() { s.dir.RemoveUnused(ctx, "learned", unusedLearned) })
	defer background.Wait()
	defer cancel()
	if s.flags.http != "" {
		return s.overHTTP(ctx, o.HTTP.Token)
	}
	return s.srv.ServeStdio(ctx, os.Stdin, os.Stdout, s.flags.only)
}

// keepBallast keeps the ballast until ctx ends. The ballast is never written, so it is never
// resident, but it counts as heap. A higher GC percent would have the same effect on a small heap,
// but enlarge a large one much more. It is allocated after the start because it would start a
// collection before the client's first response.
func keepBallast(ctx context.Context) {
	ballast := make([]byte, heapBallast)
	debug.FreeOSMemory() // the garbage of reading the configuration
	<-ctx.Done()
	runtime.KeepAlive(ballast)
}

// A client that stops the proxy with signals waits less than half a second from the first one to
// SIGKILL (Claude Code: SIGTERM 100 ms after SIGINT, SIGKILL after 490 ms).
const (
	shutdownTimeout = 250 * time.Millisecond // for an orderly shutdown after the first signal
	saveTimeout     = 100 * time.Millisecond // then, to save the remaining state
)

// logStop logs the signal that has ended ctx.
func logStop(ctx context.Context, log *slog.Logger) {
	log.Info("stopping", "cause", context.Cause(ctx))
}

// runUntilSignal runs run and returns its error. If run has not returned soon after ctx ends, it
// saves learned state and events, and leaves remaining upstream processes to the guard.
func runUntilSignal(ctx context.Context, log *slog.Logger, srv *proxy.Server, run func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		if ctx.Err() == nil {
			return err
		}
		ended <- err // it ended because of ctx
	case <-ctx.Done():
	}
	go srv.PrepareStop()
	timeout := time.After(shutdownTimeout)
	logStop(ctx, log)
	select {
	case err := <-ended:
		return err
	case <-timeout:
	}
	log.Warn("shutdown timed out; the guard ends the remaining upstream processes", "dur", shutdownTimeout)
	kept := make(chan struct{})
	go func() {
		srv.SaveAll()
		close(kept)
	}()
	select {
	case <-kept:
	case <-time.After(saveTimeout):
	}
	return nil
}

func (s *servedProxy) overHTTP(ctx context.Context, token string) error {
	l, err := net.Listen("tcp", s.flags.http)
	if _, taken := errors.AsType[syscall.Errno](err); taken {
		return fmt.Errorf("--http: %w", err)
	}
	if err != nil {
		return hinted{misused{err}, "--http wants HOST:PORT, such as 127.0.0.1:7777"}
	}
	at := *l.Addr().(*net.TCPAddr)
	open := !at.IP.IsLoopback()
	base := "http://" + at.String()
	if at.IP.IsUnspecified() { // no client can connect to that
		base = fmt.Sprintf("http://localhost:%d", at.Port)
	}
	where, page := "none", base+"/dashboard"
	if s.needsToken() {
		where, page = s.dir.Path(tokenFile), "mcpschedd dashboard --http "+base
	} else if open {
		l.Close()
		return hinted{misused{fmt.Errorf("--auth none: %s is not a loopback address", s.flags.http)}, "serve on 127.0.0.1, or leave the token on"}
	}
	if s.needsToken() && s.config.HTTP.Auth == "none" {
		s.log.Warn(`[http] auth = "none" has no effect without --auth none: clients must send the token`)
	}
	s.log.Info("serving HTTP", "url", base+"/mcp", "token", where, "dashboard", page)
	if open {
		s.log.Warn("other machines can connect, and the token and all results pass unencrypted: put TLS in front, or serve on 127.0.0.1", "addr", at.String())
	}
	return s.srv.HTTP(pages(s.srv, token)...).Serve(ctx, l)
}
