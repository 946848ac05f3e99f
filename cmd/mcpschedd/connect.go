package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/paths"
)

func connectCommand() *cobra.Command {
	var o daemon.Options
	c := &cobra.Command{
		Use:   "connect",
		Short: "Connect a client on stdio to the daemon, which all clients share",
		Long: `Connects one client on stdin and stdout to the daemon that serves all clients of this user
and this configuration, and starts the daemon if it is not running. Servers get this
command's working directory, its base variables (PATH, HOME, locale, temporary directory
and the like) and the variables that their own blocks name, and no others.

If the daemon does not start in time, this command serves its client by itself, like
mcpschedd serve, and servers get all its variables.`,
		Example: `  mcpschedd connect`,
		Args:    takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Wait <= 0 {
				return usage("--wait: want more than 0, have %v", o.Wait)
			}
			noteTerminal(c.ErrOrStderr())
			return connect(c.Context(), o, c.ErrOrStderr())
		},
	}
	configFlag(c, &o.Config)
	c.Flags().StringVar(&o.Only, "only", "", "only the server `NAME`, under its own tool names")
	c.Flags().DurationVar(&o.Wait, "wait", daemon.DefaultWait, "serve the client without the daemon if that has not\nstarted after `TIME`")
	return c
}

// connect relays a client's messages to the daemon, or serves the client by itself if the daemon
// cannot be reached.
func connect(ctx context.Context, o daemon.Options, stderr io.Writer) error {
	if os.Args[1] == daemon.Command { // the small program accepts no flags before the command
		become(daemon.SmallProgram) // it does the same in a third of the memory
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, file, err := paths.Locate(o.Config, os.Getenv)
	if err == nil { // else serve returns the error
		if err = o.Locate(dir, file, program); err == nil {
			err = daemon.Connect(ctx, os.Stdin, os.Stdout, o)
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		o.Log.Warn("client served without the daemon", "err", err)
	}
	return serve(ctx, serveFlags{config: o.Config, only: o.Only}, stderr)
}
