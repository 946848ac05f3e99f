//go:build !unix

package main

import "os"

// nonblocking returns f itself: these systems have no such pipes.
func nonblocking(f *os.File) (*os.File, error) { return f, nil }
