//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// apart puts a child into a process group of its own: an interrupt typed at
// the terminal reaches the demo alone, which then ends its children in order.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
