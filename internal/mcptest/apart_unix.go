//go:build unix

package mcptest

import "syscall"

// leaveGroup makes this process the leader of a session of its own.
func leaveGroup() error {
	_, err := syscall.Setsid()
	return err
}
