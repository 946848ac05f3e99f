//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// become has another program do what this one should.
func become(program string, args []string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
