//go:build !unix

package launch

import "os"

// polled returns f, as these systems have no such pipes.
func polled(f *os.File) (*os.File, error) { return f, nil }
