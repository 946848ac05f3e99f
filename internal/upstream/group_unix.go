//go:build unix

package upstream

import (
	"os"
	"syscall"
)

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
