// Package guard implements the process that ends the servers' process groups after the
// proxy has exited without doing so. The guard is idle while the proxy runs, and each
// proxy has one, so the package imports little to keep its memory small.
package guard

// Command is the hidden first argument that makes a program the guard: the program must
// then call [Run] with its stdin before anything else.
const Command = "guard"

// Program is the name of the guard's executable, in the directory of the proxy's. If it
// cannot be started, or has exited, the proxy's executable is used with [Command].
const Program = "mcpschedd-guard"
