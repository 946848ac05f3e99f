//go:build !linux

package jsonrpc

import "os"

// Pipe is an end of a pipe that no other process shares. Only on Linux does it differ
// from a file.
type Pipe struct{ *os.File }

// NewPipe returns file as a Pipe.
func NewPipe(file *os.File) *Pipe { return &Pipe{file} }

// reopen returns nil: only Linux can reopen a pipe.
func reopen(*os.File) *Pipe { return nil }

// direct exists only on Linux; elsewhere the Writer's goroutine makes all writes.
type direct struct{}

func newDirectWriter(*os.File, bool) *direct { return nil }

// interruptible reports whether closing file unblocks a write to it.
func interruptible(file *os.File, _ *direct) bool { return pollable(file) }

func (*direct) do([]byte) (int, error) { return 0, nil }
