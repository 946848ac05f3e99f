//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// become runs another program as a child, and returns when it exits.
func become(program string, args []string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
