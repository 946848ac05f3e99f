// Command mcpschedd-guard ends the upstream processes of a proxy which can no longer do so
// itself. Each running proxy has one beside it, which holds half the memory that it would as
// a part of mcpschedd-small; see package guard.
package main

import (
	"os"

	"mcpschedd/internal/guard"
)

func main() { guard.Run(os.Stdin) }
