//go:build !linux

package jsonrpc

import "os"

// direct is only for Linux: elsewhere all goes through the Writer's goroutine.
type direct struct{}

func newDirect(*os.File, bool) *direct { return nil }

// interruptible says whether closing file ends a write that waits for the peer.
func interruptible(file *os.File, _ *direct) bool { return pollable(file) }

func (*direct) write([]byte) (int, error) { return 0, nil }
