//go:build !unix

package main

import "os"

// terminalSize knows no terminal here: --watch prints what has changed.
func terminalSize(*os.File) (width, height int, ok bool) { return 0, 0, false }
