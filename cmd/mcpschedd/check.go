package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
)

// check validates the configuration and, asked to, tries every upstream.
func check(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	file := fs.String("config", "", "")
	connect := fs.Bool("connect", false, "")
	if err := parse(fs, args, usageCheck, stdout); err != nil {
		return err
	}
	if err := noArguments(fs, usageCheck); err != nil {
		return err
	}
	path, found, err := config.Search(*file, os.Getenv)
	if err != nil {
		return hinted{err, "mcpschedd help says where the configuration is looked for"}
	}
	if !found {
		_, err := fmt.Fprintf(stdout, "no configuration at %s: the built-in defaults count, and no upstream is configured\n", path)
		return err
	}
	report := config.Check(path, os.LookupEnv)
	if _, err := report.WriteTo(stdout); err != nil {
		return err
	}
	if !report.OK() {
		return hinted{errors.New("the configuration cannot be used"), "each line above names file, line and key"}
	}
	if !*connect {
		return nil
	}
	return survey(ctx, report.Config, stdout)
}

// survey starts every upstream without touching what is kept of them.
func survey(ctx context.Context, c *config.Config, stdout io.Writer) error {
	quiet := slog.New(slog.DiscardHandler)
	o := options(c, state.Dir{}, quiet)
	for i := range o.Upstreams {
		o.Upstreams[i].Store = upstream.Store{}
	}
	guard := upstream.NewGuard(quiet)
	defer guard.Close()
	srv := proxy.New(o, guard)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Server.StartTimeout))
	defer cancel()
	if failed := srv.Survey(ctx, stdout); failed > 0 {
		return fmt.Errorf("%d of %d upstreams could not be asked", failed, len(o.Upstreams))
	}
	return nil
}
