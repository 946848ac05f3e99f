//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs another program as a child, and exits with its exit code, or returns why it cannot be started.
func become(program string, args []string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok { // it has reported its error
		os.Exit(exit.ExitCode())
	}
	return err
}
