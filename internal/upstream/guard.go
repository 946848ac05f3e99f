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

// start starts the guard process unless it has been started. It returns when the process runs:
// a server that starts afterwards is never without a guard.
func (g *Guard) start() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed && g.starts == 0 {
		g.startLocked()
	}
}

// add guards a process group. The guard must have been started.
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
	g.writeLocked("+%d\n", pgid)
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

// startLocked starts a guard process. A second one, which replaces a guard that has exited, is
// the proxy's own executable: the separate program may be damaged or of another version.
func (g *Guard) startLocked() {
	g.starts++
	r, w, err := os.Pipe()
	if err == nil {
		defer r.Close()
		var process *exec.Cmd
		if process, err = startGuardProcess(r, g.starts > 1); err == nil {
			g.pipe = w
			for pgid := range g.groups {
				g.writeLocked("+%d\n", pgid)
			}
			g.work.Go(func() { g.wait(process) })
			return
		}
		w.Close()
	}
	g.log.Error("guard not started: a killed proxy may leave processes behind", "err", err)
}

// writeLocked writes one line to the guard process.
func (g *Guard) writeLocked(format string, pgid int) {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	if _, err := fmt.Fprintf(g.pipe, format, pgid); errors.Is(err, os.ErrDeadlineExceeded) {
		g.log.Error("guard does not read: a killed proxy may leave processes behind", "err", err)
	} // wait handles a guard that has exited
}

// wait waits for a guard process to exit, and replaces it once.
func (g *Guard) wait(process *exec.Cmd) {
	err := process.Wait()
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

// startGuardProcess starts the separate guard program, or with own, or if that fails, the
// proxy's own executable.
func startGuardProcess(stdin *os.File, own bool) (*exec.Cmd, error) {
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		return nil, errors.New("a guard process is not guarded")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if !own {
		cmd := guardProcess(filepath.Join(filepath.Dir(self), guard.Program), stdin)
		if cmd.Start() == nil { // fails if it is missing, or built for another system
			return cmd, nil
		}
	}
	cmd := guardProcess(self, stdin)
	return cmd, cmd.Start()
}

func guardProcess(program string, stdin *os.File) *exec.Cmd {
	cmd := exec.Command(program, guard.Command)
	cmd.Dir, cmd.Env = "/", []string{} // needs neither our working directory nor our secrets
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // survives signals to our process group and terminal
	return cmd
}
