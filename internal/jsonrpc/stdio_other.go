//go:build !unix

package jsonrpc

import "os"

// Nonblocking returns f as it is: only Unix has descriptors that the runtime polls.
func Nonblocking(f *os.File) (*os.File, error) { return f, nil }
