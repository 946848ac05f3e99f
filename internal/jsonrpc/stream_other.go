//go:build !unix

package jsonrpc

import "os"

// nonblocking returns f as it is: only Unix has descriptors that the runtime polls.
func nonblocking(f *os.File) (*os.File, error) { return f, nil }
