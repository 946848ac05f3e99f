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

// predecessor is how long a daemon that is ending may still be the one.
const predecessor = 1500 * time.Millisecond

// stayEvery is how often a daemon that stays looks whether the one that runs has ended.
const stayEvery = 10 * time.Second

// mostIdle is how many rooms without clients are kept, so that the next session of a project
// finds its servers running.
const mostIdle = 8

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

// runDaemon serves clients until a signal comes, or there has been none for a while.
func runDaemon(ctx context.Context, file string, stay bool, stdout, stderr io.Writer) error {
	becomeExporting(false)
	base := &proxyProcess{flags: serveOptions{config: file}, at: ownWorkplace()}
	if !isTerminal(stderr) {
		stderr = io.Discard // the log in the state folder has it
	}
	if err := base.load(stderr); err != nil {
		return err
	}
	defer base.output.Close()
	place, err := daemon.NewPlace(base.dir.Path(""), base.config.Path)
	if err != nil {
		return err
	}
	if stay && !awaitEnd(ctx, base.config) { // before anything of this process counts
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
		rooms: make(map[string]*daemonRoom), idle: time.Duration(base.config.Daemon.Idle), stay: stay,
	}
	d.hooks = hook.New(hook.Effects{
		Begin:   func() hook.Write { return d.common.BeginLocalWrite() },
		Changed: d.common.InvalidateLocal,
	})
	ctx, d.end = context.WithCancel(ctx)
	defer d.end()
	l, err := daemon.Listen(place, daemon.ListenOptions{Version: version(), EnvNames: d.names, Log: base.log, Wait: predecessor, Serve: d.serve, OnReport: d.hooks.Hear})
	if err != nil {
		return err
	}
	base.log.Info("serving clients", "socket", place.Socket)
	fmt.Fprintln(stdout, daemon.Ready)
	d.mu.Lock()
	d.lookIdleLocked()
	d.mu.Unlock()
	var watching sync.WaitGroup
	watching.Go(func() { base.watch(ctx, d.adopt) })
	heap := new(proxyProcess) // not base, of which rooms are made meanwhile
	defer runtime.KeepAlive(heap)
	watching.Go(heap.settle)
	stop := context.AfterFunc(ctx, d.prepareStop)
	defer stop()
	l.Run(ctx, d.close)
	watching.Wait()
	return nil
}

// awaitEnd waits until no daemon of a configuration runs. It is false if ctx ends before.
func awaitEnd(ctx context.Context, c *config.Config) bool {
	for {
		if _, runs := daemonOf(c); !runs {
			return true
		}
		select {
		case <-time.After(stayEvery):
		case <-ctx.Done():
			return false
		}
	}
}

// daemonProcess is the one process of a user's clients. For each workplace it has a room: what
// serve is for its one client. So nothing that a session has, knows or starts is seen from
// another folder or by another environment.
type daemonProcess struct {
	base   *proxyProcess // of which each room is a copy, at its workplace
	guard  *upstream.Guard
	common *proxy.Common
	hooks  *hook.Ledger  // what the clients report of themselves
	idle   time.Duration // without clients until it ends, and a room of it; 0: never
	stay   bool          // it does not end, but its rooms
	end    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	clients int
	ending  *time.Timer            // ends the process; nil: there are clients
	rooms   map[string]*daemonRoom // key of the workplace → its room
	unused  []*daemonRoom          // those without clients, the longest first
	closing sync.WaitGroup         // rooms that are being closed
}

// daemonRoom is the proxy of one workplace.
type daemonRoom struct {
	proxyProcess
	key    string
	tracer *record.OTLP

	clients int         // guarded by the process's mu, as ending
	ending  *time.Timer // closes it; nil: there are clients, or it stays
}

// names are those of the variables that a client brings.
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
		if d.leave(r) { // for the next session elsewhere, and for stats
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

// enter returns the room of a client, which is made for the first one. folder is its folder
// without links.
func (d *daemonProcess) enter(ctx context.Context, c *daemon.Client, folder string) (*daemonRoom, error) {
	at := workplace{elsewhere: c.Dir, env: append(slices.Clone(c.Env), "PWD="+c.Dir), shares: true}
	key := fingerprint(c.Dir, slices.Sorted(slices.Values(c.Env)))
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.rooms[key]
	if !ok {
		r = &daemonRoom{proxyProcess: *d.base, key: key}
		r.at, r.folder = at, c.Dir
		o, err := r.options()
		if err != nil {
			return nil, err
		}
		o.Common, o.LocalExclusive = d.common, d.hooks.Exclusive(folder)
		if r.tracer, err = r.open(ctx, o, d.guard); err != nil {
			return nil, err
		}
		if d.rooms[key] = r; d.closed {
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

// realFolder is a folder's path without links: the same folder has the same one.
func realFolder(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	return dir
}

// leave notes that a client has gone. It says whether that was the last one of the room.
func (d *daemonProcess) leave(r *daemonRoom) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients--
	if r.clients--; r.clients == 0 {
		if d.unused = append(d.unused, r); len(d.unused) > mostIdle {
			d.closeLocked(d.unused[0])
		}
		if d.idle > 0 {
			r.ending = time.AfterFunc(d.idle, func() { d.closeUnused(r) })
		}
	}
	d.lookIdleLocked()
	return r.clients == 0
}

// useLocked has a room not end for want of clients.
func (d *daemonProcess) useLocked(r *daemonRoom) {
	d.unused = slices.DeleteFunc(d.unused, func(other *daemonRoom) bool { return other == r })
	if r.ending != nil {
		r.ending.Stop()
		r.ending = nil
	}
}

// closeUnused closes a room that has no clients.
func (d *daemonProcess) closeUnused(r *daemonRoom) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.unused, r) && !d.closed {
		d.closeLocked(r)
	}
}

// closeLocked closes a room. Another one for its workplace may be made meanwhile.
func (d *daemonProcess) closeLocked(r *daemonRoom) {
	delete(d.rooms, r.key)
	d.useLocked(r)
	d.closing.Go(r.close)
}

func (r *daemonRoom) close() {
	r.srv.Close()
	r.tracer.Close(context.Background())
}

// lookIdleLocked has the process end after a while, if there are no clients.
func (d *daemonProcess) lookIdleLocked() {
	if d.clients == 0 && d.idle > 0 && !d.stay && d.ending == nil {
		d.ending = time.AfterFunc(d.idle, d.endIdle)
	}
}

// endIdle ends the process, unless a client has come just now.
func (d *daemonProcess) endIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients == 0 && d.ending != nil {
		d.base.log.Info("exiting without clients", "dur", d.idle)
		d.closed = true
		d.end()
	}
}

// adopt has all rooms, and those to come, work by another configuration, or say why they do
// not.
func (d *daemonProcess) adopt(next *config.Config, err error) {
	d.mu.Lock()
	if err == nil {
		d.base.config, d.base.mistakes = next, nil
	}
	var rooms []*daemonRoom
	for _, r := range d.rooms {
		rooms = append(rooms, r)
	}
	d.mu.Unlock()
	for _, r := range rooms {
		r.adopt(next, err)
	}
}

// prepareStop has what was learned and recorded be on disk soon, and processes end fast.
func (d *daemonProcess) prepareStop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rooms {
		d.closing.Go(r.srv.PrepareStop)
	}
}

// close ends all that the process has started.
func (d *daemonProcess) close() {
	d.mu.Lock()
	d.closed = true
	for _, r := range d.rooms {
		d.closeLocked(r)
	}
	d.mu.Unlock()
	d.closing.Wait()
	d.guard.Close()
}
