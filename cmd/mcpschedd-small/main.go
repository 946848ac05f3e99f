// Command mcpschedd-small is what of mcpschedd runs beside every client, and must cost next to
// nothing: the end of the daemon that a client starts. It is mcpschedd connect in an eighth of
// the time.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == daemon.Command:
		if err := connect(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "mcpschedd: error:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "mcpschedd-small: error: want mcpschedd-small connect; the other commands are those of mcpschedd")
		os.Exit(2)
	}
}

// connect is mcpschedd connect. Without a daemon mcpschedd serves the client in its place.
func connect(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(self), daemon.Program)
	f, err := daemon.ParseFlags(args)
	if err != nil {
		return err
	}
	o, err := options(f, program)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err = daemon.Connect(ctx, os.Stdin, os.Stdout, o); err == nil || ctx.Err() != nil {
			return nil
		}
		stop()
		o.Log.Warn("client served without the daemon", "err", err)
	}
	return become(program, f.Serve())
}

// options are those of the command line and the configuration.
func options(f daemon.Flags, program string) (daemon.Options, error) {
	path, found, err := config.Search(f.Config, os.Getenv)
	if err != nil {
		return daemon.Options{}, err
	}
	c := config.Default()
	if found {
		c, err = config.Load(path)
		if mistakes, ok := errors.AsType[*config.Error](err); ok { // the daemon does with them what serve does
			c, err = mistakes.Salvage(nil), nil
		}
		if err != nil {
			return daemon.Options{}, err
		}
	}
	dir, err := c.StateDir(os.Getenv)
	if err != nil {
		return daemon.Options{}, err
	}
	return f.Options(dir, path, program)
}
