//go:build unix

package launch_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"mcpschedd/tools/launch"
)

// TestSecondSignal: a second signal ends a tool that ignores its context.
func TestSecondSignal(t *testing.T) {
	if os.Getenv("LAUNCH_DEAF") != "" {
		launch.Main("deaf", func(context.Context, []string, io.Writer, io.Writer) error {
			for range 500 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondSignal$")
	cmd.Env = append(os.Environ(), "LAUNCH_DEAF=1")
	_ = cmd.Run()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("got %v, want an end by the signal", cmd.ProcessState)
	}
}
