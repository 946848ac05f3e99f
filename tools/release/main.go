// Command release builds the program from the commit that a checkout stands at, for six
// systems: an archive for each, what it is made of (CycloneDX), and SHA256SUMS.
//
//	go run -C tools ./release -out ../dist
//
// It builds in a clone of its own, so that neither files that are not committed nor the
// path of the checkout get into the program: the same commit and the same Go give the same
// bytes. Version, commit and date are what the go command finds in the clone; a tag such as
// v1.2.0 at the commit is the version.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const usage = `usage: release [-out DIR] [-systems LIST] [DIR]

  -out DIR        a new or empty folder for what is built (default dist)
  -systems LIST   such as linux/amd64,darwin/arm64 (default: all six)
  DIR             the checkout whose HEAD is built (default ..)
`

var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release: error:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	out := fs.String("out", "dist", "")
	list := fs.String("systems", strings.Join(systems, ","), "")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(w, usage)
		return err
	case err != nil:
		return err
	case fs.NArg() > 1:
		return fmt.Errorf("unexpected argument %q", fs.Arg(1))
	}
	checkout := ".."
	if fs.NArg() == 1 {
		checkout = fs.Arg(0)
	}
	return release(w, checkout, *out, strings.Split(*list, ","))
}
