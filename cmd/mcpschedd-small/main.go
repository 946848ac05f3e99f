// Command mcpschedd-small contains the two commands of mcpschedd that run for every client and
// must be cheap: connect, which relays a client to the daemon, in an eighth of the time, and
// hook.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/paths"
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == daemon.Command:
		o, err := daemon.ParseArgs(os.Args[2:])
		if errors.Is(err, flag.ErrHelp) {
			fmt.Println("mcpschedd connect --help prints the help: this program does the same in less memory.")
			return
		}
		if err != nil {
			fail(2, err)
		}
		if err := connect(o); err != nil {
			fail(1, err)
		}
	case len(os.Args) > 1 && os.Args[1] == daemon.HookCommand:
		hook(os.Args[2:])
	default:
		fmt.Fprintln(os.Stderr, "mcpschedd-small: error: want mcpschedd-small connect or hook; mcpschedd has the other commands")
		os.Exit(2)
	}
}

// fail prints an error and exits.
func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "mcpschedd: error:", err)
	os.Exit(code)
}

// connect is mcpschedd connect. If the daemon cannot be reached, it becomes mcpschedd serve.
func connect(o daemon.Options) error {
	// Collect garbage after 1 MiB instead of 4. Measured: 30,000 calls of 1 KB leave the process at
	// 6.8 MiB (PSS) instead of 9.7.
	debug.SetGCPercent(25)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(self), daemon.Program)
	dir, file, err := paths.Locate(o.Config, os.Getenv)
	if err == nil { // else serve returns the error
		if err = o.Locate(dir, file, program); err == nil {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err = daemon.Connect(ctx, os.Stdin, os.Stdout, o); err == nil || ctx.Err() != nil {
				return nil
			}
			stop()
		}
		o.Log.Warn("client served without the daemon", "err", err)
	}
	return become(program, o.ServeArgs())
}

// hook is mcpschedd hook.
func hook(args []string) {
	daemon.Hook(os.Stdin, func() (dir, file string, err error) {
		o, _ := daemon.ParseArgs(args) // flags of a later version, and those that follow them, are ignored
		return paths.Locate(o.Config, os.Getenv)
	})
}
