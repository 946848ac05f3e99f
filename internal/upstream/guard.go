//go:build unix

package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"mcpschedd/internal/guard"
)

const (
	guardStarts = 2                // one restart: a guard that dies again would go on dying
	guardWrite  = 10 * time.Second // how long a guard that does not read holds up the start of a process
)

// Guard ends the processes that the proxy started when it can no longer do so
// itself, since it was killed. It is a child process, of package guard, that is told
// of every process group over a pipe: when the pipe ends, the proxy has died. Linux can
// send a signal at the death of the parent, but that comes when a thread of it ends, and
// does not reach grandchildren.
//
// The guard process starts with the first process it is to guard, beside it. A
// nil Guard guards nothing.
type Guard struct {
	log  *slog.Logger
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	starts int
	pipe   *os.File         // to the present guard process; nil: there is none
	groups map[int]struct{} // process group ids
}

// NewGuard returns a Guard without its process, which starts later.
func NewGuard(log *slog.Logger) *Guard {
	return &Guard{log: log, groups: make(map[int]struct{})}
}

// Close ends the guard process, and with it whatever is still guarded.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.closed = true
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.mu.Unlock()
	g.work.Wait()
}

// add has a process group ended with the proxy.
func (g *Guard) add(pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.groups[pgid] = struct{}{}
	if g.starts == 0 {
		g.startLocked()
	} else {
		g.writeLocked("+%d\n", pgid)
	}
}

// remove forgets a process group. It must come before the id is free for others.
func (g *Guard) remove(pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, guarded := g.groups[pgid]; guarded {
		delete(g.groups, pgid)
		g.writeLocked("-%d\n", pgid)
	}
}

// startLocked tells a new guard process of all groups and has it started. What
// the pipe holds by then reaches the guard even if the proxy dies meanwhile.
func (g *Guard) startLocked() {
	g.starts++
	r, w, err := os.Pipe()
	if err != nil {
		g.log.Error("guard not started: a killed proxy may leave processes behind", "err", err)
		return
	}
	g.pipe = w
	for pgid := range g.groups {
		g.writeLocked("+%d\n", pgid)
	}
	again := g.starts > 1
	g.work.Go(func() { g.run(r, again) })
}

// writeLocked writes one line to the guard process; the pipe's buffer takes it
// even while that is starting.
func (g *Guard) writeLocked(format string, pgid int) {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	if _, err := fmt.Fprintf(g.pipe, format, pgid); errors.Is(err, os.ErrDeadlineExceeded) {
		g.log.Error("guard does not read: a killed proxy may leave processes behind", "err", err)
	} // run sees it if the guard has ended
}

// run is the life of one guard process, which reads r.
func (g *Guard) run(r *os.File, again bool) {
	err := runGuardProcess(r, again)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe.Close()
	g.pipe = nil
	switch {
	case g.closed:
	case g.starts < guardStarts:
		g.log.Warn("guard ended; starting it again", "err", err)
		g.startLocked()
	default:
		g.log.Error("guard ended again: a killed proxy may leave processes behind", "err", err)
	}
}

// runGuardProcess starts the guard process and waits for its end. again: one has ended
// before its time, so this one is the proxy's own program: the one beside it may be damaged,
// or of another version.
func runGuardProcess(stdin *os.File, again bool) error {
	defer stdin.Close()
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		return errors.New("a guard has no guard")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := guardProcess(filepath.Join(filepath.Dir(self), guard.Program), stdin)
	if again || cmd.Start() != nil { // it is not there, or not for this system
		cmd = guardProcess(self, stdin)
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	stdin.Close()
	return cmd.Wait()
}

func guardProcess(program string, stdin *os.File) *exec.Cmd {
	cmd := exec.Command(program, guard.Command)
	cmd.Dir, cmd.Env = "/", []string{} // it needs neither our folder nor our secrets
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives what ends our group or terminal
	return cmd
}
