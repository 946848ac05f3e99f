// Command release builds the programs from the HEAD of a checkout, for six systems: an archive for
// each, its components (CycloneDX), and SHA256SUMS.
//
//	go run -C tools ./release -out ../dist [DIR]    the checkout with the HEAD that is built (default ..)
//
// It builds in a clone, so that neither uncommitted files nor the path of the checkout affect the
// programs: the same commit and the same Go give the same bytes. Version, commit and date are those
// that the go command finds in the clone; a tag such as v1.2.0 at the commit is the version.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"mcpschedd/tools/launch"
)

var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() { launch.Main("release", run) }

func run(_ context.Context, args []string, w, stderr io.Writer) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("out", "dist", "a new or empty `DIR` for what is built")
	list := fs.String("systems", strings.Join(systems, ","), "`LIST` of systems")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 1 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(1))
	}
	checkout := ".."
	if fs.NArg() == 1 {
		checkout = fs.Arg(0)
	}
	return release(w, checkout, *out, strings.Split(*list, ","))
}
