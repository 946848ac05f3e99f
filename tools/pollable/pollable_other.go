//go:build !unix

package pollable

import "os"

// File returns f itself: these systems have no such pipes.
func File(f *os.File) (*os.File, error) { return f, nil }
