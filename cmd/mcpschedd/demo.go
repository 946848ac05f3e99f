package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"mcpschedd/internal/demo"
	"mcpschedd/internal/jsonrpc"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a short agent session, directly and through the proxy",
		Long: `Plays one agent session against two built-in MCP servers, directly and through mcpschedd
at the same time, and prints what was saved and both waiting times side by side. It takes
about 16 seconds, and needs neither a network nor a configuration.`,
		Example: `  mcpschedd demo
  mcpschedd demo --keep /tmp/demo   # then: mcpschedd dashboard /tmp/demo/events`,
		Args: takes(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if !(o.Speed >= 0.01 && o.Speed <= 1000) { // NaN is neither
				return usage("--speed: want a number from 0.01 to 1000, have %v", o.Speed)
			}
			o.Stdout = c.OutOrStdout()
			if isTerminal(c.ErrOrStderr()) {
				o.Terminal = c.ErrOrStderr()
			}
			return demo.Run(c.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "print the figures as JSON")
	c.Flags().Float64Var(&o.Speed, "speed", demo.DefaultSpeed, "divide think and tool times by `FACTOR`")
	c.Flags().StringVar(&o.Keep, "keep", "", "keep the files that mcpschedd wrote in `DIR`, a new\ndirectory; the event log is in DIR/events, for mcpschedd stats")
	return c
}

// demoUpstream runs one of the demo's servers.
func demoUpstream(ctx context.Context, name string) error {
	in, err := jsonrpc.OpenStream(os.Stdin)
	if err != nil {
		return err
	}
	return demo.RunUpstream(ctx, name, in, os.Stdout)
}
