//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is how many columns and lines a terminal has; not ok if f is none.
func terminalSize(f *os.File) (width, height int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	if size.Col == 0 || size.Row == 0 { // one that does not say
		return 80, 24, true
	}
	return int(size.Col), int(size.Row), true
}
