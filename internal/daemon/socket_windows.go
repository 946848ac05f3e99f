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

// pipeBuffer (bytes) is what a named pipe holds before a write waits.
const pipeBuffer = 64 << 10

// socketOf is the named pipe on which the daemon of a place listens.
func socketOf(stateDir, config string) string {
	return fmt.Sprintf(`\\.\pipe\mcpschedd-%s-%d`, hashOf(stateDir, config), Protocol)
}

// listen makes the named pipe of a place, which none but its user may open. It is an error if
// another program has made one of that name.
func listen(p Place) (net.Listener, error) {
	user, err := ourUser()
	if err != nil {
		return nil, err
	}
	return winio.ListenPipe(p.Socket, &winio.PipeConfig{
		SecurityDescriptor: fmt.Sprintf("O:%sD:P(A;;GA;;;%s)", user, user),
		MessageMode:        true, // in which one direction can be ended
		InputBufferSize:    pipeBuffer, OutputBufferSize: pipeBuffer,
	})
}

func dial(p Place) (conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), DefaultWait) // of a daemon that takes no client now
	defer cancel()
	c, err := winio.DialPipeContext(ctx, p.Socket)
	if err != nil {
		return nil, err
	}
	return c.(conn), nil // of a pipe in message mode
}

// checkPeer refuses a pipe of another user: only its own can open ours, but any could have made
// one of that name before.
func checkPeer(c conn) error {
	file, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return errors.New("no named pipe")
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

// ourUser is the security identifier of this user.
func ourUser() (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("this user: %w", err)
	}
	return user.User.Sid.String(), nil
}

func ownedByUs(os.FileInfo) bool { return true } // in the user's own folder

// detach has a command outlive the console that we are started from, with one of its own that
// is not shown: what it starts would else open windows.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
}
