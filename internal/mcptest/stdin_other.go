//go:build !unix

package mcptest

import "os"

func pollable(f *os.File) (*os.File, error) { return f, nil }
