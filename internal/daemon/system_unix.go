//go:build unix

package daemon

import (
	"os"
	"os/exec"
	"syscall"
)

// Supported says whether there can be a daemon on this system.
const Supported = true

func ownedByUs(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// detach has a command outlive what ends our group or terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
