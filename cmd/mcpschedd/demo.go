package main

import (
	"context"
	"flag"
	"io"
	"os"

	"mcpschedd/internal/demo"
)

const usageDemo = `usage: mcpschedd demo [--json] [--speed FACTOR] [--keep DIR] [--show-config]

Plays one agent session against two embedded MCP servers, straight and through
mcpschedd at the same time, and prints what was saved and the waits side by side.
Takes about 17 seconds, and needs no network.

  --json          print the figures as JSON
  --speed FACTOR  divide think and tool times, and those that mcpschedd is told,
                  by this (default 4)
  --keep DIR      leave what mcpschedd wrote in DIR, a new or empty folder: its
                  record is in DIR/events, for mcpschedd stats and dashboard
  --show-config   print what mcpschedd is told of the two servers, and play nothing
`

// runDemo plays the demo, with a line of progress on a terminal.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := demo.Options{Stdout: stdout}
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.BoolVar(&o.JSON, "json", false, "")
	fs.Float64Var(&o.Speed, "speed", 0, "")
	fs.StringVar(&o.Keep, "keep", "", "")
	show := fs.Bool("show-config", false, "")
	if err := parse(fs, args, usageDemo, stdout); err != nil {
		return err
	}
	if err := noArguments(fs, usageDemo); err != nil {
		return err
	}
	if *show {
		_, err := io.WriteString(stdout, demo.Config)
		return err
	}
	if _, _, ok := terminal(stderr); ok {
		o.Terminal = stderr
	}
	return demo.Run(ctx, o)
}

// demoUpstream is one of the demo's servers.
func demoUpstream(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return &usageError{text: "want the name of one demo upstream", usage: usageDemo}
	}
	in, err := nonblocking(os.Stdin)
	if err != nil {
		return err
	}
	return demo.RunUpstream(ctx, args[0], in, os.Stdout)
}
