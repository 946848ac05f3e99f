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

// guardWrite is how long a guard that does not read may delay the start of a process.
const guardWrite = 10 * time.Second

// Guard kills the server processes when the proxy was killed and could not do so itself. It is a
// child process running package guard, which receives every process group over a pipe. The end of
// the pipe means that the proxy has exited. Linux can signal a child at the death of its parent,
// but it does so when the parent's thread ends, and not for grandchildren.
type Guard struct {
	log  *slog.Logger
	once sync.Once // starts the process

	mu     sync.Mutex
	pipe   *os.File  // to the guard process; nil if there is none
	cmd    *exec.Cmd // the guard process, if pipe is not nil
	closed bool
}

// NewGuard returns a Guard whose process has not started yet.
func NewGuard(log *slog.Logger) *Guard { return &Guard{log: log} }

// Close ends the guard process, which kills all groups that are still guarded.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.pipe != nil {
		g.pipe.Close()
		_ = g.cmd.Wait() // its status says nothing
		g.pipe = nil
	}
}

// start starts the guard process unless it has been started. It returns when the process runs:
// a server that starts afterwards is never without a guard.
func (g *Guard) start() {
	if g == nil {
		return
	}
	g.once.Do(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed {
			return
		}
		r, w, err := os.Pipe()
		if err == nil {
			defer r.Close()
			if g.cmd, err = startGuardProcess(r); err == nil {
				g.pipe = w
				return
			}
			w.Close()
		}
		g.log.Error("guard not started: a killed proxy may leave processes behind", "err", err)
	})
}

// add guards a process group. The guard must have been started.
func (g *Guard) add(pgid int) { g.write("+%d\n", pgid) }

// remove stops guarding a process group. It must be called before the id can be reused.
func (g *Guard) remove(pgid int) { g.write("-%d\n", pgid) }

// write writes one line to the guard process.
func (g *Guard) write(format string, pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	if _, err := fmt.Fprintf(g.pipe, format, pgid); err != nil {
		g.log.Error("guard has ended or does not read: a killed proxy may leave processes behind", "err", err)
	}
}

// startGuardProcess starts the separate guard program, or if that is missing or built for another
// system, the proxy's own executable.
func startGuardProcess(stdin *os.File) (*exec.Cmd, error) {
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		return nil, errors.New("a guard process is not guarded")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := guardProcess(filepath.Join(filepath.Dir(self), guard.Program), stdin)
	if cmd.Start() == nil {
		return cmd, nil
	}
	cmd = guardProcess(self, stdin)
	return cmd, cmd.Start()
}

func guardProcess(program string, stdin *os.File) *exec.Cmd {
	cmd := exec.Command(program, guard.Command)
	cmd.Dir, cmd.Env = "/", []string{} // needs neither our working directory nor our secrets
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // survives signals to our process group and terminal
	return cmd
}
