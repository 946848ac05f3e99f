//go:build unix

package jsonrpc

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// OpenStream returns a standard stream as a stream that the runtime polls. A goroutine in a
// blocking read can delay the garbage collector's stop-the-world by a minute (Go 1.26), and a
// blocking write would delay its sender. Other processes may share file. So Linux reopens a pipe:
// they cannot then make it block. A socket, and a pipe that cannot be reopened, is duplicated and
// made non-blocking, also for them. A terminal or a file on disk is returned as it is: it is not a
// client. Any other stream and file are closed separately.
func OpenStream(file *os.File) (io.ReadWriteCloser, error) {
	if own := reopen(file); own != nil {
		return own, nil
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	if info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return file, nil
	}
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
