package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/hook"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
)

// takeoverWait is how long a new daemon waits for one that is exiting to release the lock.
const takeoverWait = 1500 * time.Millisecond

// stayInterval is how often daemon --stay checks whether the running daemon has exited.
const stayInterval = 10 * time.Second

// maxIdle is how many proxies without clients are kept, so that the next session of a project
// finds its servers running.
const maxIdle = 8

func daemonCommand() *cobra.Command {
	var file string
	var stay bool
	var unit string
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Run the daemon that serves all clients",
		Long: `Runs, in the foreground, the daemon that serves all clients of this user and this
configuration that start mcpschedd connect. That command starts the daemon if it is not
running, so you rarely need to. Without clients it exits after [daemon] idle.

Clients in the same directory with the same environment are served together: they share
the servers that are known to be stateless, and those with instances = "shared". Other
clients never share a server process.

To keep it running, with systemd or on macOS:

  mcpschedd daemon --unit systemd > ~/.config/systemd/user/mcpschedd.service
  systemctl --user enable --now mcpschedd

  mcpschedd daemon --unit launchd > ~/Library/LaunchAgents/mcpschedd.plist
  launchctl bootstrap gui/$UID ~/Library/LaunchAgents/mcpschedd.plist`,
		Example: `  mcpschedd daemon
  mcpschedd daemon --unit systemd`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if unit != "" {
				return printUnit(c.OutOrStdout(), unit, file)
			}
			return runDaemon(c.Context(), file, stay, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&stay, "stay", false, "wait for a running daemon to exit, and do not exit for lack\nof clients")
	c.Flags().StringVar(&unit, "unit", "", "print the unit with which `SYSTEM`, systemd or launchd, keeps\nit running, and exit")
	_ = c.RegisterFlagCompletionFunc("unit", oneOf("systemd", "launchd")) // the flag is there
	return c
}

// runDaemon serves clients until ctx is cancelled or there have been none for the idle time.
func runDaemon(ctx context.Context, file string, stay bool, stdout, stderr io.Writer) error {
	becomeExporting(false)
	base := &proxyProcess{flags: serveOptions{config: file}, at: ownWorkplace()}
	if !isTerminal(stderr) {
		stderr = io.Discard // the log file in the state directory has everything
	}
	if err := base.load(stderr); err != nil {
		return err
	}
	defer base.output.Close()
	place, err := daemon.NewPlace(base.dir.Path(""), base.config.Path)
	if err != nil {
		return err
	}
	if stay && !awaitEnd(ctx, base.config) { // before this process registers anything
		return nil
	}
	o, err := base.options()
	if err != nil {
		return err
	}
	common, end, err := newCommon(o, base.config, base.at)
	if err != nil {
		return err
	}
	defer end()
	d := &daemonProcess{
		base: base, guard: upstream.NewGuard(base.log), common: common,
		proxies: make(map[string]*workplaceProxy), idle: time.Duration(base.config.Daemon.Idle), stay: stay,
	}
	d.hooks = hook.New(hook.Effects{
		Begin:   func() hook.Write { return d.common.BeginLocalWrite() },
		Changed: d.common.InvalidateLocal,
	})
	ctx, d.end = context.WithCancel(ctx)
	defer d.end()
	l, err := daemon.Listen(place, daemon.ListenOptions{Version: version(), EnvNames: d.names, Log: base.log, Wait: takeoverWait, Serve: d.serve, OnReport: d.hooks.Hear})
	if err != nil {
		return err
	}
	base.log.Info("serving clients", "socket", place.Socket)
	fmt.Fprintln(stdout, daemon.Ready)
	d.mu.Lock()
	d.armIdleLocked()
	d.mu.Unlock()
	var watching sync.WaitGroup
	watching.Go(func() { base.watch(ctx, d.applyConfig) })
	heap := new(proxyProcess) // not base, which is copied concurrently
	defer runtime.KeepAlive(heap)
	watching.Go(heap.afterStart)
	stop := context.AfterFunc(ctx, d.prepareStop)
	defer stop()
	l.Run(ctx, d.close)
	watching.Wait()
	return nil
}

// awaitEnd waits until no daemon of the configuration is running. It returns false if ctx ends
// first.
func awaitEnd(ctx context.Context, c *config.Config) bool {
	for {
		if _, runs := daemonOf(c); !runs {
			return true
		}
		select {
		case <-time.After(stayInterval):
		case <-ctx.Done():
			return false
		}
	}
}

// daemonProcess serves all clients of a user and a configuration. It has one proxy for each
// workplace (directory and environment), like serve for its one client, so that sessions, state
// and servers are never visible from another directory or with another environment.
type daemonProcess struct {
	base   *proxyProcess // template that is copied for each workplace
	guard  *upstream.Guard
	common *proxy.Common
	hooks  *hook.Ledger  // reports of the clients' hooks
	idle   time.Duration // time without clients after which the process, or one proxy, ends; 0 means never
	stay   bool          // the process never ends when idle; its proxies do
	end    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	clients int
	ending  *time.Timer                // ends the process; nil while there are clients
	proxies map[string]*workplaceProxy // workplace key → proxy
	unused  []*workplaceProxy          // proxies without clients, longest idle first
	closing sync.WaitGroup             // proxies being closed
}

// workplaceProxy is the proxy of one workplace.
type workplaceProxy struct {
	proxyProcess
	key    string
	tracer *record.OTLP

	clients int         // guarded by daemonProcess.mu
	ending  *time.Timer // closes the proxy; nil while it has clients, or if it never ends
}

// names returns the names of the environment variables that a client must send.
func (d *daemonProcess) names(folder string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base.config.Variables(folder)
}

// serve serves one client.
func (d *daemonProcess) serve(ctx context.Context, c *daemon.Client) {
	folder := realFolder(c.Dir)
	r, err := d.enter(ctx, c, folder)
	if err != nil {
		d.base.log.Error("client not served", "err", err)
		return
	}
	defer func() {
		if d.leave(r) { // for sessions in other directories, and for stats
			r.srv.Save()
		}
	}()
	if c.Only != "" && !r.srv.Has(c.Only) {
		d.base.log.Error("client not served: --only names an unknown server", "name", c.Only)
		return
	}
	r.srv.Prepare(c.Only)
	reporting := &hook.Client{Folder: folder, Session: c.Session, Parent: c.Parent, Again: c.Reconnected}
	begun := func(prompted func(string)) {
		reporting.Prompted = prompted
		d.hooks.Enter(reporting)
	}
	defer d.hooks.Leave(reporting)
	if err := r.srv.ServeConnected(ctx, c.In, c.Out, proxy.Connected{Only: c.Only, Repeated: c.Repeated, Begun: begun}); err != nil {
		r.log.Warn("client lost", "err", err)
	}
}

// enter returns the proxy of a client's workplace, and creates it for the first client. folder is
// the client's directory with links resolved.
func (d *daemonProcess) enter(ctx context.Context, c *daemon.Client, folder string) (*workplaceProxy, error) {
	at := workplace{folder: c.Dir, env: append(slices.Clone(c.Env), "PWD="+c.Dir), shares: true}
	key := fingerprint(c.Dir, slices.Sorted(slices.Values(c.Env)))
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.proxies[key]
	if !ok {
		r = &workplaceProxy{proxyProcess: *d.base, key: key}
		r.at, r.folder = at, c.Dir
		o, err := r.options()
		if err != nil {
			return nil, err
		}
		o.Common, o.LocalExclusive = d.common, d.hooks.Exclusive(folder)
		if r.tracer, err = r.open(ctx, o, d.guard); err != nil {
			return nil, err
		}
		if d.proxies[key] = r; d.closed {
			return nil, context.Canceled
		}
	}
	if d.ending != nil {
		d.ending.Stop()
		d.ending = nil
	}
	d.useLocked(r)
	d.clients++
	r.clients++
	return r, nil
}

// realFolder returns the path of a directory with links resolved, so that one directory has one
// path.
func realFolder(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
}

// leave unregisters a client of r, and reports whether it was the last one.
func (d *daemonProcess) leave(r *workplaceProxy) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients--
	if r.clients--; r.clients == 0 {
		if d.unused = append(d.unused, r); len(d.unused) > maxIdle {
			d.closeLocked(d.unused[0])
		}
		if d.idle > 0 {
			r.ending = time.AfterFunc(d.idle, func() { d.closeUnused(r) })
		}
	}
	d.armIdleLocked()
	return r.clients == 0
}

// useLocked keeps a proxy from being closed as idle.
func (d *daemonProcess) useLocked(r *workplaceProxy) {
	d.unused = slices.DeleteFunc(d.unused, func(other *workplaceProxy) bool { return other == r })
	if r.ending != nil {
		r.ending.Stop()
		r.ending = nil
	}
}

// closeUnused closes a proxy if it still has no clients.
func (d *daemonProcess) closeUnused(r *workplaceProxy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.unused, r) && !d.closed {
		d.closeLocked(r)
	}
}

// closeLocked closes a proxy in the background. A new one for its workplace may be created
// meanwhile.
func (d *daemonProcess) closeLocked(r *workplaceProxy) {
	delete(d.proxies, r.key)
	d.useLocked(r)
	d.closing.Go(r.close)
}

func (r *workplaceProxy) close() {
	r.srv.Close()
	r.tracer.Close(context.Background())
}

// armIdleLocked starts the timer that ends the process if there are no clients.
func (d *daemonProcess) armIdleLocked() {
	if d.clients == 0 && d.idle > 0 && !d.stay && d.ending == nil {
		d.ending = time.AfterFunc(d.idle, d.endIdle)
	}
}

// endIdle ends the process unless a client has connected meanwhile.
func (d *daemonProcess) endIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients == 0 && d.ending != nil {
		d.base.log.Info("exiting without clients", "dur", d.idle)
		d.closed = true
		d.end()
	}
}

// applyConfig applies a new configuration to all present and future proxies, or reports err to
// them.
func (d *daemonProcess) applyConfig(next *config.Config, err error) {
	d.mu.Lock()
	if err == nil {
		d.base.config, d.base.mistakes = next, nil
	}
	var proxies []*workplaceProxy
	for _, r := range d.proxies {
		proxies = append(proxies, r)
	}
	d.mu.Unlock()
	for _, r := range proxies {
		r.applyConfig(next, err)
	}
}

// prepareStop starts to save learned state and events, and makes upstream processes end quickly.
func (d *daemonProcess) prepareStop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.proxies {
		d.closing.Go(r.srv.PrepareStop)
	}
}

// close closes all proxies and the guard, and waits for them.
func (d *daemonProcess) close() {
	d.mu.Lock()
	d.closed = true
	for _, r := range d.proxies {
		d.closeLocked(r)
	}
	d.mu.Unlock()
	d.closing.Wait()
	d.guard.Close()
}
