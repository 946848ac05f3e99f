package jsonrpc

import (
	"io"
	"os"
)

// OpenStream returns a standard stream as one that no goroutine holds a thread for, to be
// closed apart from file. Other processes may share that: a pipe is opened once more where
// the system can, so that nothing they do makes it block. A terminal, or a file on disk, is
// returned as it is.
func OpenStream(file *os.File) (io.ReadWriteCloser, error) {
	if own := reopen(file); own != nil {
		return own, nil
	}
	return nonblocking(file)
}
