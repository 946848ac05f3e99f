//go:build !linux

package jsonrpc

import "os"

// Pipe is our end of a pipe that no other process has a hold on. Only Linux makes
// use of that.
type Pipe struct{ *os.File }

// NewPipe returns file as a Pipe.
func NewPipe(file *os.File) *Pipe { return &Pipe{file} }

// reopen would open a pipe once more; nil, it cannot.
func reopen(*os.File) *Pipe { return nil }

// direct is only for Linux: elsewhere all goes through the Writer's goroutine.
type direct struct{}

func newDirectWriter(*os.File, bool) *direct { return nil }

// interruptible says whether closing file ends a write that waits for the peer.
func interruptible(file *os.File, _ *direct) bool { return pollable(file) }

func (*direct) do([]byte) (int, error) { return 0, nil }
