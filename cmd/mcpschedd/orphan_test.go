package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcpschedd/internal/mcptest"
)

// program is a running mcpschedd on stdio.
type program struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	state string // its state folder
}

func startProgram(t *testing.T, config string) *program {
	t.Helper()
	return startProgramAt(t, self, config)
}

// startProgramAt is like startProgram, but with a copy of the program.
func startProgramAt(t *testing.T, path, config string) *program {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "pipeline_config.toml")
	writeFile(t, file, config)
	cmd := exec.Command(path, "serve", "--config", file)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+dir)
	return started(t, cmd, filepath.Join(dir, "mcpschedd"))
}

// started starts a program on stdio, which is killed when the test ends.
func started(t *testing.T, cmd *exec.Cmd, state string) *program {
	t.Helper()
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &program{cmd, in, bufio.NewReader(out), state}
}

// ask sends a request and returns its answer.
func (p *program) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	return p.answer(t)
}

// answer returns the next line that is no notification: one of a changed list may come at any time.
func (p *program) answer(t *testing.T) string {
	t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0","method":"notifications/`) {
			return line
		}
	}
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`

// upstreamConfig returns a block with a server of mcptest.
func upstreamConfig(o mcptest.Options) string {
	name, value, _ := strings.Cut(o.Env(), "=")
	return fmt.Sprintf("[upstreams.%s]\ncommand = %s\nenv = { %s = %s }\n", o.Name, strconv.Quote(serverProgram), name, strconv.Quote(value))
}

// However the proxy ends, no process that it started is left, neither a server nor its child,
// although both ignore the end of their input.
func TestNoOrphan(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"SIGKILL", "SIGINT", "EOF"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			beacon, first := mcptest.NewGate(t), mcptest.NewGate(t)
			p := startProgram(t, upstreamConfig(mcptest.Options{Name: "a", Beacon: beacon.Addr(), Family: true, Stays: true})+
				upstreamConfig(mcptest.Options{Name: "b", Beacon: beacon.Addr(), Family: true, Gate: first.Addr(), Start: "mute"})+
				"[server]\ndrain_timeout = \"10ms\"\nstartup_wait = \"10ms\"\n")
			p.ask(t, hello)
			if got := p.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__echo"}}`); !strings.Contains(got, `"text":"a"`) {
				t.Fatalf("got %s", got)
			}
			var family []*mcptest.Visitor
			for range 4 {
				family = append(family, beacon.Next())
			}
			first.Next().Open() // the guard knows a server before that has any request
			// A call is open when the proxy ends.
			if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__hang"}}`+"\n"); err != nil {
				t.Fatal(err)
			}
			switch end {
			case "SIGKILL":
				p.cmd.Process.Kill()
			case "SIGINT":
				p.cmd.Process.Signal(os.Interrupt)
			case "EOF":
				p.in.Close()
			}
			_, _ = io.Copy(io.Discard, p.out)
			err := p.cmd.Wait()
			if end != "SIGKILL" && err != nil {
				t.Errorf("got %v, want exit code 0", err)
			}
			for _, v := range family {
				v.Gone()
			}
		})
	}
}
