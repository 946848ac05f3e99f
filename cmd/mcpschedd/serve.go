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
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
)

// heapRoom (bytes) is how much garbage a proxy with next to nothing on its heap
// may make between two collections, beyond what is usual. Measured with 32 calls of 1 KB
// at once: with 1 MiB a call takes 1.06 times the processor time, with 8 MiB 0.98 times,
// for 2 MiB more resident after calls of 100 KB.
const heapRoom = 4 << 20

// serveOptions are its flags.
type serveOptions struct{ config, http, auth, only string }

func serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy for a client on stdio, or over HTTP",
		Long: `Runs the proxy for one client on stdin and stdout, which is what a client's
configuration starts. With --http it serves any number of clients: /mcp and /mcp/NAME
(streamable HTTP), /sse (the older transport), /dashboard, /metrics, /stats, /healthz.`,
		Example: `  mcpschedd serve
  mcpschedd serve --http 127.0.0.1:7777`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o, c.ErrOrStderr()) },
	}
	configFlag(c, &o.config)
	c.Flags().StringVar(&o.http, "http", "", "serve HTTP on `ADDR`, such as 127.0.0.1:7777, instead of stdio")
	c.Flags().StringVar(&o.auth, "auth", "", "`MODE` is token (default): clients send the generated bearer\ntoken, whose file is logged at start; or none: loopback\naddresses only")
	c.Flags().StringVar(&o.only, "only", "", "on stdio: the upstream `NAME` alone, under its own tool names")
	completeFlag(c, "auth", "token", "none")
	completeUpstreamFlag(c, "only", &o.config)
	return c
}

// serve runs the proxy until its client goes or a signal comes.
func serve(ctx context.Context, f serveOptions, stderr io.Writer) error {
	if f.auth != "" && f.auth != "token" && f.auth != "none" {
		return usage("--auth: want token or none, have %q", f.auth)
	}
	if f.only != "" && f.http != "" {
		return usage("--only is for stdio; over HTTP the path /mcp/%s does the same", f.only)
	}
	if f.http == "" && term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintln(stderr, "mcpschedd: waiting for an MCP client on stdin, which is this terminal; Ctrl-D ends it. mcpschedd import makes a client start it.")
	}
	c, mistakes, err := loadServed(f.config)
	if err != nil {
		return err
	}
	dir, err := stateDir(c)
	if err != nil {
		return err
	}
	log, output, err := openLog(c.Log, newLogFile(dir, proxyLog), stderr)
	if err != nil {
		return err
	}
	defer output.Close()
	if mistakes != nil {
		log.Error("configuration has mistakes; what they concern is off", "err", mistakes)
	} else {
		keepGood(c, dir, log)
	}
	for _, w := range c.Warnings {
		log.Warn(w.String())
	}
	written := *c // as the file has it, with which later contents are compared
	if f.auth != "" {
		c.HTTP.Auth = f.auth
	}

	folder := workingDir()
	if f.http != "" {
		folder = "" // its sessions are of clients that work anywhere
	}
	o := inFolder(options(c, dir, log), c, folder)
	if f.http != "" && c.HTTP.Auth == "token" {
		if o.HTTP.Token, err = token(dir); err != nil {
			return err
		}
	}
	if host, _, err := net.SplitHostPort(f.http); err == nil {
		o.HTTP.Hosts = append(slices.Clone(o.HTTP.Hosts), cmp.Or(host, "::"))
	}
	// Never written, so never resident; but it counts as heap. A higher GC percent
	// would do the same to a small heap, and make a large one larger by far.
	room := make([]byte, heapRoom)
	defer runtime.KeepAlive(room)
	transport := "stdio"
	if f.http != "" {
		transport = "http"
	}
	o.Record = recordOptions(c, dir, transport, log)
	guard := upstream.NewGuard(log)
	var srv *proxy.Server
	tracer, err := export(ctx, log, &o, func() *proxy.Server { return srv })
	if err != nil {
		return hinted{misused{fmt.Errorf("OpenTelemetry: %w", err)}, "the OTEL_* variables say where to"}
	}
	srv = proxy.New(o, guard)
	if mistakes != nil {
		srv.Reject(mistakes)
	}
	return runUntilSignal(ctx, log, srv, func() error {
		defer guard.Close()
		defer tracer.Close(context.WithoutCancel(ctx))
		defer srv.Close()
		if f.only != "" && !srv.Has(f.only) {
			return hinted{misused{fmt.Errorf("--only: no upstream %q is configured", f.only)}, "the configuration is " + orDefaults(c.Path)}
		}
		ctx, cancel := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { watch(ctx, &written, folder, dir, log, output, srv) })
		watching.Go(func() {
			o.Models.Ready()
			debug.FreeOSMemory() // that leaves six megabytes of garbage
		})
		defer watching.Wait()
		defer cancel()
		if f.http != "" {
			mount(srv, o.HTTP.Token)
			return serveHTTP(ctx, c, dir, log, srv, f.http)
		}
		return serveStdio(ctx, srv, f.only)
	})
}

// A client that ends the proxy by signals waits less than half a second from the
// first to SIGKILL (Claude Code: SIGTERM 100 ms after SIGINT, SIGKILL after 490 ms).
const (
	endWithin  = 250 * time.Millisecond // from the first signal until no more is waited for
	keepWithin = 100 * time.Millisecond // and then, until what is left to keep is on disk or lost
)

// runUntilSignal returns what run does or, soon after ctx has ended, without it: what was
// learned and recorded is on disk then, and processes that are left are the guard's.
func runUntilSignal(ctx context.Context, log *slog.Logger, srv *proxy.Server, run func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(endWithin)
	defer late.Stop()
	go srv.PrepareStop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
	}
	log.Warn("not everything has ended in time; upstream processes that are left are ended by the guard", "dur", endWithin)
	kept := make(chan struct{})
	go func() {
		srv.SaveAll()
		close(kept)
	}()
	late.Reset(keepWithin)
	select {
	case <-kept:
	case <-late.C:
	}
	return nil
}

func serveStdio(ctx context.Context, srv *proxy.Server, only string) error {
	srv.Prepare(only)
	in, err := nonblocking(os.Stdin)
	if err != nil {
		return err
	}
	out, err := nonblocking(os.Stdout)
	if err != nil {
		return err
	}
	return srv.ServeStdio(ctx, in, out, only)
}

func serveHTTP(ctx context.Context, c *config.Config, dir state.Dir, log *slog.Logger, srv *proxy.Server, addr string) error {
	l, err := net.Listen("tcp", addr)
	if _, taken := errors.AsType[syscall.Errno](err); taken {
		return fmt.Errorf("--http: %w", err)
	}
	if err != nil {
		return hinted{misused{err}, "--http wants HOST:PORT, such as 127.0.0.1:7777"}
	}
	where, page := "none", "http://"+l.Addr().String()+"/dashboard"
	if c.HTTP.Auth == "token" {
		where, page = dir.Path(tokenFile), "mcpschedd dashboard --http http://"+l.Addr().String()
	} else if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		l.Close()
		return hinted{misused{fmt.Errorf("--auth none: %s is not a loopback address", addr)}, "serve on 127.0.0.1, or leave the token on"}
	}
	log.Info("serving HTTP", "url", "http://"+l.Addr().String()+"/mcp", "token", where, "dashboard", page)
	return srv.ServeListener(ctx, l)
}

// inFolder leaves out the upstreams that sessions in a folder do not have. They count when it
// is decided how tools are called, so that a client's rules hold in every folder.
func inFolder(o proxy.Options, c *config.Config, folder string) proxy.Options {
	all := len(o.Upstreams)
	o.Upstreams = slices.DeleteFunc(o.Upstreams, func(u proxy.Upstream) bool {
		return slices.ContainsFunc(c.Upstreams, func(u2 config.Upstream) bool { return u2.Name == u.Spec.Name && !u2.In(folder) })
	})
	o.Elsewhere = all - len(o.Upstreams)
	return o
}

// watch applies every new content of the configuration file while ctx lasts.
func watch(ctx context.Context, c *config.Config, folder string, dir state.Dir, log *slog.Logger, output *logOutput, srv *proxy.Server) {
	if c.Path == "" {
		return
	}
	now := c
	err := config.Watch(ctx, c, func(next *config.Config, err error) {
		if err == nil && next.Log != now.Log {
			if next.Log.File != now.Log.File {
				log.Info("the log goes on elsewhere", "path", cmp.Or(next.Log.File, "stderr"))
			}
			err = output.apply(next.Log)
		}
		if err != nil {
			log.Error("configuration not reloaded; the old one stays", "err", err)
			srv.Reject(err)
			return
		}
		for _, w := range next.Warnings {
			log.Warn(w.String())
		}
		if keys := config.Diff(now, next); len(keys) > 0 {
			log.Warn("changed, but needs a restart", "keys", keys)
		}
		now = next
		srv.Reject(nil)
		applied := *next
		applied.Server, applied.HTTP = c.Server, c.HTTP // what needs a restart is what it was at the start
		srv.Apply(inFolder(options(&applied, dir, log), next, folder))
		keepGood(next, dir, log)
		log.Info("configuration reloaded", "path", next.Path)
	}, unmeant)
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		log.Warn("configuration not watched", "err", err)
	}
}

func orDefaults(path string) string {
	if path == "" {
		return "the built-in defaults"
	}
	return path
}
