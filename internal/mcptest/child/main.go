// Command child is the server of mcptest that runs as a child process of a test.
package main

import "mcpschedd/internal/mcptest"

func main() { mcptest.Main() }
