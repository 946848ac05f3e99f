//go:build !unix

package jsonrpc

import "os"

// nonblocking returns f: the runtime polls descriptors only on Unix.
func nonblocking(f *os.File) (*os.File, error) { return f, nil }
