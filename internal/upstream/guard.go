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
	guardStarts = 2                // one restart: a guard that fails twice would keep failing
	guardWrite  = 10 * time.Second // how long a guard that does not read may delay the start of a process
)

// Guard kills the server processes when the proxy was killed and could not do so itself. It is a
// child process running package guard, which receives every process group over a pipe. The end of
// the pipe means that the proxy has exited. Linux can signal a child at the death of its parent,
// but it does so when the parent's thread ends, and not for grandchildren.
type Guard struct {
	log  *slog.Logger
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	starts int
	pipe   *os.File         // to the running guard process; nil if there is none
	groups map[int]struct{} // process group ids
}

// NewGuard returns a Guard whose process has not started yet.
func NewGuard(log *slog.Logger) *Guard {
	return &Guard{log: log, groups: make(map[int]struct{})}
}

// Close ends the guard process, which kills all groups that are still guarded.
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

// add guards a process group.
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

// remove stops guarding a process group. It must be called before the id can be reused.
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

// startLocked starts a guard process. All groups are written to the pipe first, so that the guard
// receives them even if the proxy is killed meanwhile.
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
	fallback := g.starts > 1
	g.work.Go(func() { g.run(r, fallback) })
}

// writeLocked writes one line to the guard process. While the process is starting, the pipe
// buffers the line.
func (g *Guard) writeLocked(format string, pgid int) {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	if _, err := fmt.Fprintf(g.pipe, format, pgid); errors.Is(err, os.ErrDeadlineExceeded) {
		g.log.Error("guard does not read: a killed proxy may leave processes behind", "err", err)
	} // run handles a guard that has exited
}

// run runs one guard process, which reads r, and restarts it once.
func (g *Guard) run(r *os.File, fallback bool) {
	err := runGuardProcess(r, fallback)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe.Close()
	g.pipe = nil
	switch {
	case g.closed:
	case g.starts < guardStarts:
		g.log.Warn("guard exited; restarting", "err", err)
		g.startLocked()
	default:
		g.log.Error("guard exited again: a killed proxy may leave processes behind", "err", err)
	}
}

// runGuardProcess starts a guard process and waits for it to exit. With fallback, it uses the
// proxy's own executable, because the separate guard program failed: it may be damaged or of
// another version.
func runGuardProcess(stdin *os.File, fallback bool) error {
	defer stdin.Close()
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		return errors.New("a guard process is not guarded")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := guardProcess(filepath.Join(filepath.Dir(self), guard.Program), stdin)
	if fallback || cmd.Start() != nil { // missing, or built for another system
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
	cmd.Dir, cmd.Env = "/", []string{} // needs neither our working directory nor our secrets
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // survives signals to our process group and terminal
	return cmd
}
