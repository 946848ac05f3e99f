// Command lines counts the contents of a checkout of the program: its Go by package, with figures
// of code that is hard to read (long lines, long functions, wide types, mutexes), and the rest:
// tests, the page, tables and tools.
//
//	go run -C tools ./lines
//
// The product is every Go file of the program's module that is not a test, including the packages
// that only tests use. Two checkouts with equal files give equal output.
package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"mcpschedd/tools/launch"
)

const usage = `usage: lines [DIR]

  DIR     the folder with the program's go.mod (default ..)

lines        all lines, blank ones and comments included
comment %    of the lines that are not blank, those that hold only a comment
line p90     characters of the longer lines, a tab as four, blank lines left out
func p90     lines of the longer functions and methods
exported     names of the package, and methods of its exported types
wide         types with over 15 fields or over 25 methods, embedded ones counted in
mutexes      fields and variables that are a sync.Mutex or sync.RWMutex
tests        lines of *_test.go
`

func main() { launch.Main("lines", run) }

func run(_ context.Context, args []string, w, stderr io.Writer) error {
	dir := ".."
	if len(args) > 0 {
		dir = args[0]
	}
	if len(args) > 1 || strings.HasPrefix(dir, "-") {
		io.WriteString(stderr, usage)
		return errors.New("want one DIR")
	}
	c, err := take(dir)
	if err != nil {
		return err
	}
	return c.print(w)
}
