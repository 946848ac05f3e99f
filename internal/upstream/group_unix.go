//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// group is a process group: a process and what it has started, as far as that
// has not left it.
type group struct{ leader *os.Process }

// groupAttr starts a process as the leader of a group of its own.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// newGroup returns the group of a process started with groupAttr.
func newGroup(leader *os.Process) *group { return &group{leader} }

func (g *group) terminate() { _ = syscall.Kill(-g.leader.Pid, syscall.SIGTERM) }

// kill ends the group, and the leader even if it has moved to another one.
func (g *group) kill() {
	_ = syscall.Kill(-g.leader.Pid, syscall.SIGKILL)
	_ = g.leader.Kill()
}

func (g *group) close() {}
