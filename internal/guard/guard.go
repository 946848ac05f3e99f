// Package guard is the process that ends the upstream processes of a proxy which
// can no longer do so itself. It lives as long as the proxy and does nothing
// meanwhile, so it imports next to nothing: what a package costs in memory by being
// linked, each running proxy would pay twice.
package guard

// Command is the hidden first argument with which a program is started as the
// guard; it must call [Run] on its stdin then, before anything else.
const Command = "guard"

// Program is the name of the program that is only the guard: it stands beside the
// proxy's own, which takes its place where it is missing.
const Program = "mcpschedd-guard"
