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

// guardPause is the time before a guard that has exited is replaced, as the next one may exit too.
const guardPause = time.Second

// Guard kills the server processes when the proxy was killed and could not do so itself. It is a
// child process running package guard, which receives every process group over a pipe. The end of
// the pipe means that the proxy has exited. Linux can signal a child at the death of its parent,
// but it does so when the parent's thread ends, and not for grandchildren.
type Guard struct {
	log  *slog.Logger
	work sync.WaitGroup // waits for the guard processes

	mu     sync.Mutex
	closed bool
	exited bool             // a guard process has exited
	pipe   *os.File         // to the guard process; nil if there is none
	groups map[int]struct{} // process group ids
}

// NewGuard returns a Guard without a running process.
func NewGuard(log *slog.Logger) *Guard { return &Guard{log: log, groups: make(map[int]struct{})} }

// Close ends the guard process, which kills all groups that are still guarded.
func (g *Guard) Close() {
	g.mu.Lock()
	g.closed = true
	if g.pipe != nil {
		g.pipe.Close()
	}
	g.mu.Unlock()
	g.work.Wait()
}

// start starts the guard process unless it runs. It returns when the process runs: a server that
// starts afterwards is never without a guard.
func (g *Guard) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe != nil || g.closed {
		return
	}
	r, w, err := os.Pipe()
	if err == nil {
		defer r.Close()
		g.pipe = w
		for pgid := range g.groups { // before it starts: the proxy may be killed
			g.writeLocked("+%d\n", pgid)
		}
		var cmd *exec.Cmd
		if cmd, err = startGuardProcess(r, g.exited); err == nil {
			g.work.Go(func() { g.wait(cmd) })
			return
		}
		g.pipe = nil
		w.Close()
	}
	g.log.Error("guard not started: a killed proxy may leave processes behind", "err", err)
}

// wait waits for a guard process to exit. It is replaced after a pause, or when the next server starts.
func (g *Guard) wait(cmd *exec.Cmd) {
	err := cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe.Close()
	g.pipe = nil
	if !g.closed {
		g.exited = true
		g.log.Error("guard exited: a killed proxy may leave processes behind until it is restarted", "err", err, "dur", guardPause)
		time.AfterFunc(guardPause, g.start)
	}
}

// add guards a process group, also by a guard process that is started later.
func (g *Guard) add(pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[pgid] = struct{}{}
	g.writeLocked("+%d\n", pgid)
}

// remove stops guarding a process group. It must be called as soon as the id may be reused.
func (g *Guard) remove(pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, pgid)
	g.writeLocked("-%d\n", pgid)
}

// writeLocked writes one line to the guard process, if it runs.
func (g *Guard) writeLocked(format string, pgid int) {
	if g.pipe != nil && !g.closed {
		_, _ = fmt.Fprintf(g.pipe, format, pgid) // wait handles a guard that has exited
	}
}

// startGuardProcess starts the separate guard program, or the proxy's own executable if own is set
// or that program is missing or built for another system.
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
		if cmd.Start() == nil {
			return cmd, nil
		}
	}
	cmd := guardProcess(self, stdin)
	return cmd, cmd.Start()
}

func guardProcess(program string, stdin *os.File) *exec.Cmd {
	cmd := exec.Command(program, guard.Command)
	cmd.Dir, cmd.Env = "/", []string{} // it needs neither our folder nor our secrets
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // survives signals to our process group and terminal
	return cmd
}

// group is a process group: a process and those of its descendants that have not left it.
type group struct{ leader *os.Process }

// groupAttr makes a process the leader of a new process group.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// newGroup returns the group of a process started with groupAttr.
func newGroup(leader *os.Process) *group { return &group{leader} }

func (g *group) terminate() { _ = syscall.Kill(-g.leader.Pid, syscall.SIGTERM) }

// kill kills the group, and the leader even if it has left the group.
func (g *group) kill() {
	_ = syscall.Kill(-g.leader.Pid, syscall.SIGKILL)
	_ = g.leader.Kill()
}

func (g *group) close() {}
