package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"mcpschedd/internal/demo"
	"mcpschedd/internal/jsonrpc"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	var show bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a short agent session, direct and through the proxy",
		Long: `Plays one agent session against two embedded MCP servers, straight and through
mcpschedd at the same time, and prints what was saved and the waits side by side. Takes
about 17 seconds, and needs no network and no configuration.`,
		Example: `  mcpschedd demo
  mcpschedd demo --keep /tmp/demo   # then: mcpschedd dashboard /tmp/demo/events`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Stdout = c.OutOrStdout()
			if _, _, ok := terminal(c.ErrOrStderr()); ok {
				o.Terminal = c.ErrOrStderr()
			}
			if show {
				_, err := io.WriteString(o.Stdout, demo.Config)
				return err
			}
			return demo.Run(c.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "print the figures as JSON")
	c.Flags().Float64Var(&o.Speed, "speed", 0, "divide think and tool times by `FACTOR` (default 4)")
	c.Flags().StringVar(&o.Keep, "keep", "", "leave what mcpschedd wrote in `DIR`, a new or empty folder:\nits record is in DIR/events, for mcpschedd stats")
	c.Flags().BoolVar(&show, "show-config", false, "print what mcpschedd is told of the two servers, and play nothing")
	return c
}

// demoUpstream is one of the demo's servers.
func demoUpstream(ctx context.Context, name string) error {
	in, err := jsonrpc.OpenStream(os.Stdin)
	if err != nil {
		return err
	}
	return demo.RunUpstream(ctx, name, in, os.Stdout)
}
