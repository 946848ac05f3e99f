// Package launch has what several tools need to start programs: mcpschedd with a configuration,
// clients and servers made with mcp-go, and pipes that Go waits for without a thread.
//
// The measured program runs as a process of its own, and is reached as a client reaches it. The
// clients and servers with measured times of their own are in bench.
package launch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Program returns the absolute path of a program that must have been built.
func Program(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("%w (build it first)", err)
	}
	return path, nil
}

// Table is a table of a TOML file.
type Table = map[string]any

// Configure writes a configuration of mcpschedd. Its texts must not contain references to the
// environment.
func Configure(file string, settings Table) error {
	text, err := toml.Marshal(settings)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// FreeAddress returns an unused loopback address.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Pause waits for so long, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stdio returns the standard streams of this process as files that the Go runtime polls.
func Stdio() (in, out *os.File, err error) {
	if in, err = polled(os.Stdin); err != nil {
		return nil, nil, err
	}
	out, err = polled(os.Stdout)
	return in, out, err
}

// Serve serves on two pipes until the input or ctx ends. It handles a hundred concurrent calls, as
// mcp-go's default of five would queue calls.
func Serve(ctx context.Context, s *server.MCPServer, in io.Reader, out io.Writer) error {
	stdio := server.NewStdioServer(s)
	server.WithWorkerPoolSize(100)(stdio)
	server.WithQueueSize(1000)(stdio)
	server.WithErrorLogger(log.New(io.Discard, "", 0))(stdio)
	if err := stdio.Listen(ctx, in, out); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Client starts a program, makes the handshake, and returns its client. The process outlives ctx;
// Close ends it. Its stderr goes to the file log.
func Client(ctx context.Context, command []string, dir, log string, o ...client.ClientOption) (*client.Client, error) {
	stderr, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	c := client.NewClient(transport.NewStdioWithOptions(command[0], nil, command[1:],
		transport.WithCommandFunc(func(_ context.Context, name string, _, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(name, args...)
			cmd.Stderr, cmd.Dir = stderr, dir
			return cmd, nil
		})), o...)
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	if err := Hello(ctx, c); err != nil {
		c.Close()
		said, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said)))
	}
	return c, nil
}

// Hello makes the handshake.
func Hello(ctx context.Context, c *client.Client) error {
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "tools", Version: "1"}
	_, err := c.Initialize(ctx, hello)
	return err
}

// Main runs a tool until it has ended or is interrupted. An error is printed, with exit code 1. A
// second signal ends the process at once, as not every tool observes ctx.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: error: %v\n", name, err)
		os.Exit(1)
	}
}
