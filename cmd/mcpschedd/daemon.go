package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/age"
	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/hook"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// takeoverWait is how long a new daemon waits for one that is exiting to release the lock.
const takeoverWait = 1500 * time.Millisecond

// workplaceIdle is how long a proxy without clients is kept if the daemon itself never ends, so that
// the next session of a project finds its servers running.
const workplaceIdle = 10 * time.Minute

func daemonCommand() *cobra.Command {
	var file string
	var stop bool
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Run or stop the daemon that serves all clients",
		Long: `Runs, in the foreground, the daemon that serves all clients of this user and this
configuration that start mcpschedd connect. That command starts the daemon if it is not
running, so you rarely need to. Without clients it exits after [daemon] idle.

--stop ends the running daemon, for example to upgrade it. Clients that are connected
start another one, with the programs that are installed by then.

Clients in the same directory with the same environment are served together: they share
the servers that are known to be stateless, and those with instances = "shared". Other
clients never share a server process.`,
		Example: `  mcpschedd daemon
  mcpschedd daemon --stop`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if stop {
				return stopDaemon(file, c.ErrOrStderr())
			}
			return runDaemon(c.Context(), file, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&stop, "stop", false, "end the daemon that is running")
	return c
}

// stopDaemon ends the running daemon of a configuration.
func stopDaemon(file string, stderr io.Writer) error {
	c, _, _, err := loadServed(file, stateToRead)
	if err != nil {
		return err
	}
	place, runs := daemonOf(c)
	if !runs {
		say(stderr, "the daemon is not running")
		return nil
	}
	if err := place.Stop(); hangs(err) {
		return explainHang(err)
	} else if err != nil { // such as of an older daemon, which does not know the request
		return hinted{err, "mcpschedd stats shows the number of the daemon's process, which kill ends"}
	}
	say(stderr, "the daemon is stopping; clients that are connected start another one")
	return nil
}

// daemonHangs is what is known of a daemon that accepts connections and does not answer.
const daemonHangs = "daemon does not answer: it is stopped, or hangs"

// hangs reports whether an error of talking to the daemon means that.
func hangs(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// explainHang returns an error of the daemon for the user to read, if it means that the daemon hangs.
func explainHang(err error) error {
	if hangs(err) {
		return hinted{errors.New("the " + daemonHangs), "mcpschedd stats says how to end or continue it"}
	}
	return err
}

// runDaemon serves clients until ctx is cancelled or there have been none for the idle time.
func runDaemon(ctx context.Context, file string, stdout, stderr io.Writer) error {
	if !isTerminal(stderr) {
		stderr = io.Discard // the log file in the state directory has everything
	}
	base, o, closeCommon, err := prepare(serveFlags{config: file}, stderr)
	if err != nil {
		return err
	}
	closeCommon = sync.OnceFunc(closeCommon)
	defer closeCommon()
	place, err := daemon.NewPlace(base.dir.Path(""), base.config.Path)
	if err != nil {
		return err
	}
	d := &daemonProcess{
		base: base, guard: upstream.NewGuard(base.log), common: o.Common,
		idle: base.config.Daemon.Idle, rescan: make(chan struct{}, 1),
	}
	d.hooks = hook.New(hook.Effects{
		Begin:   func() hook.Write { return d.common.BeginLocalWrite() },
		Changed: d.common.InvalidateLocal,
	})
	signalled := ctx
	ctx, d.end = context.WithCancel(ctx)
	defer d.end()
	l, err := daemon.Listen(place, daemon.ListenOptions{
		EnvNames: d.envNames, Has: d.has, Log: base.log, Wait: takeoverWait, Serve: d.serve, OnReport: d.hooks.Hear,
		OnStop: func() {
			base.log.Info("stopping", "cause", "mcpschedd daemon --stop")
			d.end()
		},
	})
	if errors.Is(err, daemon.ErrRunning) {
		return hinted{err, "mcpschedd stats shows it, mcpschedd daemon --stop ends it"}
	}
	if err != nil {
		return err
	}
	base.log.Info("serving clients", "socket", place.Socket)
	fmt.Fprintln(stdout, "ready")
	if isTerminal(stdout) {
		say(stdout, "serving the clients that start mcpschedd connect, by %s; press Ctrl-C to stop", orDefaults(base.config.Path))
	}
	if d.idle > 0 {
		time.AfterFunc(d.idle, func() { d.endUnused(nil) })
	}
	var background sync.WaitGroup
	background.Go(func() { d.base.watch(ctx, d.workplaces, d.rescan, d.applyConfig) })
	background.Go(func() { keepBallast(ctx) })
	background.Go(func() { d.base.dir.RemoveUnused(ctx, "learned", unusedLearned) })
	stop := context.AfterFunc(ctx, d.prepareStop)
	defer stop()
	err = l.Run(ctx, func() { // before the next daemon may start
		if signalled.Err() != nil {
			logStop(signalled, base.log)
		}
		d.close()
		closeCommon()
	})
	d.end()
	background.Wait()
	return err
}

// daemonProcess serves all clients of a user and a configuration. It has one proxy for each
// workplace (directory and environment), like serve for its one client, so that sessions, state
// and servers are never visible from another directory or with another environment.
type daemonProcess struct {
	base   *servedProxy // template that is copied for each workplace
	guard  *upstream.Guard
	common *proxy.Common
	hooks  *hook.Ledger  // reports of the clients' hooks
	idle   time.Duration // time without clients after which the process ends; 0 means never
	end    context.CancelFunc

	rescan chan struct{} // see [config.Watch]

	mu      sync.Mutex
	closed  bool           // no proxy may be created any more
	proxies []*servedProxy // those that are not being closed
	closing sync.WaitGroup // proxies being closed
}

// envNames returns the names of the environment variables that a client must send.
func (d *daemonProcess) envNames(folder string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base.config.Variables(folder)
}

// workplaces returns those that have a proxy.
func (d *daemonProcess) workplaces() (all []workplace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.proxies {
		all = append(all, s.at)
	}
	return all
}

// has reports whether the configuration has a server for sessions in a folder.
func (d *daemonProcess) has(name, folder string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.base.config.Upstreams, func(u config.Upstream) bool {
		return u.Name == name && u.Enabled && u.In(folder)
	})
}

// serve serves one client.
func (d *daemonProcess) serve(ctx context.Context, c *daemon.Client) {
	folder := paths.WithoutLinks(c.Dir)
	s, err := d.enter(ctx, c, folder)
	if err != nil {
		d.base.log.Error("client not served", "err", err)
		return
	}
	defer func() {
		if d.leave(s) {
			s.srv.Idle() // saves for sessions in other directories and for stats
		}
	}()
	reporting := &hook.Client{Folder: folder, Session: c.Session, Parent: c.Parent, ServedBefore: c.ServedBefore}
	begun := func(prompted func(string)) {
		reporting.Prompted = prompted
		d.hooks.Enter(reporting)
	}
	defer d.hooks.Leave(reporting)
	if err := s.srv.ServeConnected(ctx, c.In, c.Out, proxy.Connected{Only: c.Only, Replayed: c.Replayed, ServedBefore: c.ServedBefore, Begun: begun}); err != nil {
		s.log.Warn("client lost", "err", err)
	}
}

// enter returns the proxy of a client's workplace, and creates it for the first client. folder is
// the client's directory with links resolved.
func (d *daemonProcess) enter(ctx context.Context, c *daemon.Client, folder string) (*servedProxy, error) {
	key := fingerprint(c.Dir, slices.Sorted(slices.Values(c.Env)))
	at, _ := os.Stat(c.Dir) // nil if it was removed, which equals no other
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, context.Canceled
	}
	var s *servedProxy
	i := slices.IndexFunc(d.proxies, func(s *servedProxy) bool {
		return s.key == key && os.SameFile(s.inode, at) // else its servers run in a directory that no longer has this path
	})
	if i >= 0 {
		s = d.proxies[i]
	} else {
		s = new(*d.base)
		s.key, s.inode, s.at = key, at, workplace{folder: c.Dir, env: append(slices.Clone(c.Env), "PWD="+c.Dir), named: true, shares: true, offers: offeredIn(c.Dir)}
		o, err := s.options()
		if err != nil {
			return nil, err
		}
		exclusive := d.hooks.Exclusive(folder)
		o.Common = d.common
		o.LocalExclusive = func(dir, arguments string) bool {
			return exclusive() && hook.Within(dir, arguments, c.Dir, folder)
		}
		if err := s.open(ctx, o, d.guard); err != nil {
			return nil, err
		}
		d.proxies = append(d.proxies, s)
		if len(s.config.EnvFiles(s.at.lookup)) > 0 {
			select {
			case d.rescan <- struct{}{}: // to watch them from now on
			default: // as is already due
			}
		}
	}
	if s.ending != nil {
		s.ending.Stop()
	}
	s.clients++
	return s, nil
}

// leave unregisters a client of s, and reports whether it was the last one.
func (d *daemonProcess) leave(s *servedProxy) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.clients--; s.clients > 0 {
		return false
	}
	s.ending = time.AfterFunc(cmp.Or(d.idle, workplaceIdle), func() { d.endUnused(s) })
	return true
}

// closeLocked closes a proxy in the background. A new one for its workplace may be created
// meanwhile.
func (d *daemonProcess) closeLocked(s *servedProxy) {
	d.proxies = slices.DeleteFunc(d.proxies, func(other *servedProxy) bool { return other == s })
	d.closing.Go(func() { s.close(context.Background()) })
}

// endUnused closes s, which may be nil, if it has no clients, and ends the process if it serves no
// workplace.
func (d *daemonProcess) endUnused(s *servedProxy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.proxies, s) && s.clients == 0 {
		d.closeLocked(s)
	}
	if len(d.proxies) == 0 && d.idle > 0 {
		d.base.log.Info("exiting without clients", "dur", age.Text(d.idle))
		d.closed = true
		d.end()
	}
}

// applyConfig applies next, unless it is nil, to all present and future proxies, and reports err to the
// present ones and, if it is a mistake in the file, to the future ones.
func (d *daemonProcess) applyConfig(next *config.Config, err error) {
	d.mu.Lock()
	if next != nil {
		d.base.config = next
		d.common.Configure(proxy.Options{Dedup: next.Dedup.Options, Limits: next.Limits, Budgets: next.Budgets})
	}
	d.base.mistakes, _ = errors.AsType[*config.Error](err)
	proxies := slices.Clone(d.proxies)
	d.mu.Unlock()
	for _, s := range proxies {
		s.applyConfig(next, err)
	}
}

// prepareStop starts to save learned state and events, and makes upstream processes end quickly.
func (d *daemonProcess) prepareStop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.proxies {
		d.closing.Go(s.srv.PrepareStop)
	}
}

// close closes all proxies and the guard, and waits for them.
func (d *daemonProcess) close() {
	d.mu.Lock()
	d.closed = true
	for _, s := range slices.Clone(d.proxies) {
		d.closeLocked(s)
	}
	d.mu.Unlock()
	d.closing.Wait()
	d.guard.Close()
}
