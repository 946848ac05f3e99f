//go:build !unix

package jsonrpc

import (
	"io"
	"os"
)

// OpenStream returns file: the runtime polls standard streams only on Unix.
func OpenStream(file *os.File) (io.ReadWriteCloser, error) { return file, nil }
