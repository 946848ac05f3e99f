// Command mcpschedd-guard ends the servers of a proxy that has exited without doing so.
// Each running proxy starts one. It uses half the memory that mcpschedd-small would use as
// the guard; see package guard.
package main

import (
	"os"

	"mcpschedd/internal/guard"
)

func main() { guard.Run(os.Stdin) }
