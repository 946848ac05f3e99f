package jsonrpc

import (
	"io"
	"os"
)

// OpenStream returns a standard stream as a stream that the runtime polls, so that no
// goroutine blocks a thread on it. The stream and file are closed separately. Other
// processes may share file, so a pipe is reopened where the system can: they cannot then
// make it block. A terminal or a file on disk is returned as it is.
func OpenStream(file *os.File) (io.ReadWriteCloser, error) {
	if own := reopen(file); own != nil {
		return own, nil
	}
	return nonblocking(file)
}
