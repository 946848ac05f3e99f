package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// Replicas with the same configuration find each other through its store, whether clients start
// the program itself or use the daemon.
func TestReplicas(t *testing.T) {
	t.Parallel()
	replicasShare(t, self)
}

// replicasShare starts two replicas, one on stdio and a daemon, and returns when both are counted
// in their store.
func replicasShare(t *testing.T, program string) {
	t.Helper()
	addr := startStore(t)
	d := newDaemonTest(t, "[dedup]\nstore = \"redis://"+addr+"\"\n")
	for i, words := range [][]string{{"serve"}, {"connect", "--wait", "30s"}} {
		cmd := d.command(t.TempDir(), program, words...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", words[0], err)
			}
		})
		mcptest.Eventually(t, fmt.Sprintf("the store has counted %d replicas, the last of them %s", i+1, words[0]), func() bool {
			return askStore(addr, "ZCARD mcpschedd:replicas") == fmt.Sprintf(":%d", i+1)
		})
	}
}

// A replica that cannot reach its store says so in its figures.
func TestStatsWithoutStore(t *testing.T) {
	p := serveOver(t, "127.0.0.1", "[dedup]\nstore = \"redis://127.0.0.1:"+mcptest.FreePort(t)+"\"\n")
	t.Setenv("MCPSCHEDD_TOKEN", p.token)
	mcptest.Eventually(t, "stats says that the store cannot be used", func() bool {
		var stdout, stderr bytes.Buffer
		if err := execute(t.Context(), []string{"stats", "--http", p.addr}, &stdout, &stderr); err != nil {
			t.Fatal(err)
		}
		text := stdout.String()
		return strings.Contains(text, "Figures of 1 replica: ") && strings.Contains(text, "The replicas' store cannot be used") && strings.Contains(text, "connection refused")
	})
}

// startStore starts a server for replicas, and returns its address.
func startStore(t *testing.T) string {
	t.Helper()
	var path string
	for _, name := range []string{"valkey-server", "redis-server"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" && os.Getenv("MCPSCHEDD_NEEDS_VALKEY") != "" {
		t.Fatal("neither valkey-server nor redis-server is installed")
	}
	if path == "" {
		t.Skip("neither valkey-server nor redis-server is installed")
	}
	port := mcptest.FreePort(t)
	addr := net.JoinHostPort("127.0.0.1", port)
	cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	mcptest.Eventually(t, "the server answers", func() bool { return askStore(addr, "PING") == "+PONG" })
	return addr
}

// askStore returns the first line of the server's reply to a command; "" if it does not reply.
func askStore(addr, command string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "%s\r\n", command)
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}
