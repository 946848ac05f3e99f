package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// conn is one end of a connection.
type conn interface {
	net.Conn
	CloseWrite() error
}

// pipeBuffer is the size in bytes of a named pipe's buffers.
const pipeBuffer = 64 << 10

// socketOf returns the name of a daemon's named pipe.
func socketOf(stateDir, config string) string {
	return fmt.Sprintf(`\\.\pipe\mcpschedd-%s-%d`, hashOf(stateDir, config), Protocol)
}

// socket listens at a place.
type socket struct{ net.Listener }

// isThere returns true: nothing can delete a named pipe.
func (socket) isThere() bool { return true }

// listen creates the named pipe of a place, which only its user may open. It fails if another
// process has created a pipe of that name.
func listen(p Place) (socket, error) {
	user, err := ourUser()
	if err != nil {
		return socket{}, err
	}
	l, err := winio.ListenPipe(p.Socket, &winio.PipeConfig{
		SecurityDescriptor: fmt.Sprintf("O:%sD:P(A;;GA;;;%s)", user, user),
		MessageMode:        true, // supports CloseWrite
		InputBufferSize:    pipeBuffer, OutputBufferSize: pipeBuffer,
	})
	return socket{l}, err
}

func dial(p Place) (conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), DefaultWait) // in case the daemon does not accept clients at the moment
	defer cancel()
	c, err := winio.DialPipeContext(ctx, p.Socket)
	if err != nil {
		return nil, err
	}
	return c.(conn), nil // pipes in message mode have CloseWrite
}

// checkPeer returns an error if the pipe belongs to another user. Only this user can open a pipe
// of ours, but any user could have created one of that name before.
func checkPeer(c conn) error {
	file, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return errors.New("not a named pipe")
	}
	d, err := windows.GetSecurityInfo(windows.Handle(file.Fd()), windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("the owner of the pipe: %w", err)
	}
	owner, _, err := d.Owner()
	if err != nil {
		return fmt.Errorf("the owner of the pipe: %w", err)
	}
	user, err := ourUser()
	if err == nil && owner.String() != user {
		err = fmt.Errorf("the pipe belongs to the user %s, not to %s", owner, user)
	}
	return err
}

// ourUser returns the security identifier of this user.
func ourUser() (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("this user: %w", err)
	}
	return user.User.Sid.String(), nil
}

func ownedByUs(os.FileInfo) bool { return true } // the folder is in the user's profile

// detached returns a command with a hidden console of its own, so that it outlives ours. Without a
// console, its child processes would open windows.
func detached(line []string) *exec.Cmd {
	cmd := exec.Command(line[0], line[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
	return cmd
}

func release(*exec.Cmd) {}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
