// Command mcpschedd-small is the part of mcpschedd that runs beside every proxy
// and must cost next to nothing: the guard of its processes. mcpschedd starts it
// from its own folder, and itself in its place where there is none.
package main

import (
	"os"

	"mcpschedd/internal/guard"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] != guard.Command {
		os.Stderr.WriteString("mcpschedd-small: error: started by mcpschedd alone\n")
		os.Exit(2)
	}
	guard.Run(os.Stdin)
}
