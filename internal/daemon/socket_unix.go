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

// socket listens at a place.
type socket struct {
	*net.UnixListener
	path string
	file os.FileInfo
}

// isThere reports whether the socket's file was neither deleted nor replaced.
func (s socket) isThere() bool {
	file, err := os.Lstat(s.path)
	return err == nil && os.SameFile(file, s.file)
}

// Close stops listening and removes the file, unless it is another daemon's.
func (s socket) Close() error {
	if s.isThere() {
		_ = os.Remove(s.path) // the next daemon removes what is left
	}
	return s.UnixListener.Close()
}

// listen creates the socket of a place, and its folder if that was deleted, and removes a socket left
// behind by a crash. The caller holds the lock.
func listen(p Place) (s socket, err error) {
	if err := makePrivate(filepath.Dir(p.Socket)); err != nil {
		return s, err
	}
	if err := os.Remove(p.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.Socket, Net: "unix"})
	if err != nil {
		return s, err
	}
	listener.SetUnlinkOnClose(false) // it would remove any file of this name
	err = os.Chmod(p.Socket, 0o600)  // until then the folder's permissions keep other users out
	if err == nil {
		s.file, err = os.Lstat(p.Socket)
	}
	if err != nil {
		listener.Close()
		return s, err
	}
	s.UnixListener, s.path = listener, p.Socket
	return s, nil
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

// detached returns a command that starts a program below a shell, in a session of its own, so that signals to
// our process group or terminal do not reach it.
func detached(line []string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", `"$0" "$@" & wait $!`}, line...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// release ends the shell of a detached program, which then is no descendant of ours: some clients, such as
// OpenCode, end all descendants of their servers.
func release(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// kill ends a detached program with its shell.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
