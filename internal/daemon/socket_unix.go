//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxSocketPath is the length in bytes that the path of a socket may have on all systems.
const maxSocketPath = 103

// conn is one end of a connection.
type conn = *net.UnixConn

// socketOf returns the path of a daemon's socket.
func socketOf(stateDir, config string) string {
	path := filepath.Join(stateDir, "daemon", fmt.Sprintf("%s-%d.sock", hashOf(config), Protocol))
	if len(path) > maxSocketPath {
		// The folder does not depend on TMPDIR, which may differ between clients.
		folder := filepath.Join("/tmp", "mcpschedd-"+strconv.Itoa(os.Getuid()))
		path = filepath.Join(folder, fmt.Sprintf("%s-%d.sock", hashOf(stateDir, config), Protocol))
	}
	return path
}

// listen creates the socket of a place, and removes one left behind by a crash. The caller holds
// the lock.
func listen(p Place) (net.Listener, error) {
	if err := os.Remove(p.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.Socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(p.Socket, 0o600); err != nil { // until then the folder's permissions keep other users out
		listener.Close()
		return nil, err
	}
	return listener, nil
}

func dial(p Place) (conn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: p.Socket, Net: "unix"})
}

// checkPeer returns an error if the process at the other end belongs to another user.
func checkPeer(c conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	uid, peerErr := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, peerErr = peerOf(int(fd)) }); err != nil {
		return err
	}
	if peerErr != nil {
		return fmt.Errorf("the user at the other end: %w", peerErr)
	}
	if uid != os.Getuid() {
		return fmt.Errorf("the other end belongs to the user %d, not to %d", uid, os.Getuid())
	}
	return nil
}

func ownedByUs(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// detach starts a command in a session of its own, so that signals to our process group or
// terminal do not reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
