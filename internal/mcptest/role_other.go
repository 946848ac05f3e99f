//go:build !unix

package mcptest

func runRole(string) {}
