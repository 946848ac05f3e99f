//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// stubborn configures a server that ignores the end of its input and SIGTERM, as does its child.
// It has one tool, which is read-only.
func stubborn(beacon *mcptest.Gate) string {
	return upstreamConfig(mcptest.Options{Name: "a", Beacon: beacon.Addr(), Family: true, Stays: true, Stubborn: true}) +
		"[tools.\"a/echo\"]\nside_effect_class = \"read_only\"\n"
}

func echo(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"t"}}}`, id)
}

// holdAt returns a call that the server answers when the gate opens, which is not during the test.
func holdAt(gate *mcptest.Gate) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"hold","arguments":{"gate":%q}}}`, gate.Addr())
}

// found returns the contents of all files in a folder.
func found(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// At a signal, what was learned is written before servers that ignore their end are killed, as the
// client kills the program soon after. SIGHUP is what a closed terminal sends.
func TestStateIsKeptFirst(t *testing.T) {
	ends := []os.Signal{os.Interrupt}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup, which the program inherits
		ends = append(ends, syscall.SIGHUP)
	}
	for _, end := range ends {
		t.Run(end.String(), func(t *testing.T) {
			beacon, gate := mcptest.NewGate(t), mcptest.NewGate(t)
			p := startProgram(t, stubborn(beacon))
			p.ask(t, hello)
			server := beacon.Next()
			beacon.Next() // of its child
			p.ask(t, echo(1))
			if _, err := io.WriteString(p.in, holdAt(gate)+"\n"); err != nil {
				t.Fatal(err)
			}
			gate.Next()
			p.cmd.Process.Signal(end)
			server.Gone()
			p.cmd.Process.Kill()
			p.cmd.Wait()
			if got := found(t, filepath.Join(p.state, "learned")); !strings.Contains(got, "\x04echo") {
				t.Errorf("learned: got %q, want the call of echo", got)
			}
			if got := found(t, filepath.Join(p.state, "events")); !strings.Contains(got, `"tool":"echo"`) {
				t.Errorf("events: got %q, want the call of echo", got)
			}
			if got := found(t, filepath.Join(p.state, "logs")); !strings.Contains(got, `msg=stopping cause="`+end.String()+" signal") {
				t.Errorf("log: got %q, want the signal", got)
			}
		})
	}
}

// A client that has closed stderr is served all the same, though the log has something to say.
func TestStderrIsClosed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.toml")
	writeFile(t, file, "enrichment.prefetch_timeout_ms = 1000\n") // a warning
	for _, args := range [][]string{{"serve"}, {"connect", "--wait", "1ns"}} {
		read, stderr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		cmd := exec.Command(self, append(args, "--config", file)...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "XDG_STATE_HOME="+dir), stderr
		p := started(t, cmd, filepath.Join(dir, "mcpschedd"))
		stderr.Close()
		if got := p.ask(t, hello); !strings.Contains(got, `"result"`) {
			t.Errorf("%s: got %s", args, got)
		}
	}
}

// patient is how long a client waits from its first signal to SIGKILL: 490 ms, like Claude Code.
const patient = 490 * time.Millisecond

// ends sends SIGINT and then SIGTERM, and returns how long the program takes to end.
func ends(t *testing.T, cmd *exec.Cmd, drain func()) time.Duration {
	t.Helper()
	first := time.Now()
	cmd.Process.Signal(os.Interrupt)
	cmd.Process.Signal(syscall.SIGTERM)
	drain()
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want exit code 0", err)
	}
	return time.Since(first)
}

// wantKept checks that the record is complete, and that no process of the family is left.
func wantKept(t *testing.T, state string, family []*mcptest.Visitor) {
	t.Helper()
	for _, v := range family {
		v.Gone()
	}
	events := found(t, filepath.Join(state, "events"))
	for _, want := range []string{`"tool":"echo"`, `"tool":"hold"`} {
		if !strings.Contains(events, want) {
			t.Errorf("events: want %s in %s", want, events)
		}
	}
	if got := found(t, filepath.Join(state, "learned")); !strings.Contains(got, "\x04echo") {
		t.Errorf("learned: got %q, want the call of echo", got)
	}
}

// inTime repeats an end until one takes no longer than a client waits, and answers the open call:
// on a busy machine a single one may be slow, or give up what is not written in time.
func inTime(t *testing.T, end func() (took time.Duration, last string)) {
	t.Helper()
	var ends []string
	for range 20 {
		took, last := end()
		if took <= patient && strings.Contains(last, "mcpschedd is shutting down") {
			return
		}
		ends = append(ends, fmt.Sprintf("%v: %q", took, last))
	}
	t.Errorf("want an end within %v that answers the call, got\n%s", patient, strings.Join(ends, "\n"))
}

// The program ends before its client kills it, even if its servers ignore their end.
func TestEndAtASignal(t *testing.T) {
	inTime(t, func() (took time.Duration, last string) {
		beacon, gate := mcptest.NewGate(t), mcptest.NewGate(t)
		p := startProgram(t, stubborn(beacon))
		p.ask(t, hello)
		family := []*mcptest.Visitor{beacon.Next(), beacon.Next()}
		p.ask(t, echo(1))
		if _, err := io.WriteString(p.in, holdAt(gate)+"\n"); err != nil {
			t.Fatal(err)
		}
		gate.Next()
		took = ends(t, p.cmd, func() {
			lines, err := io.ReadAll(p.out)
			if last = string(lines); err != nil {
				t.Error(err)
			}
		})
		if took <= patient { // a slow end gives up what is not written in time
			wantKept(t, p.state, family)
		}
		return took, last
	})
}

// Over HTTP, open streams are closed and open calls are answered.
func TestEndAtASignalOverHTTP(t *testing.T) {
	inTime(t, func() (took time.Duration, last string) {
		beacon, gate := mcptest.NewGate(t), mcptest.NewGate(t)
		cmd, url, state := startHTTP(t, stubborn(beacon))
		opened := send(t, http.MethodPost, url, "", hello)
		session := opened.Header.Get("Mcp-Session-Id")
		family := []*mcptest.Visitor{beacon.Next(), beacon.Next()}
		io.Copy(io.Discard, send(t, http.MethodPost, url, session, echo(1)).Body)
		stream := send(t, http.MethodGet, url, session, "")
		answered := make(chan string, 1)
		go func() {
			answer, err := request(http.MethodPost, url, session, holdAt(gate))
			if err != nil {
				answered <- err.Error()
				return
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			answered <- string(text)
		}()
		gate.Next()
		took = ends(t, cmd, func() {
			_, err := io.Copy(io.Discard, stream.Body)
			if last = <-answered; err != nil {
				last = fmt.Sprintf("the stream ends with %v", err)
			}
		})
		wantKept(t, state, family)
		return took, last
	})
}

// startHTTP is like startProgram, over HTTP.
func startHTTP(t *testing.T, config string) (cmd *exec.Cmd, url, state string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "pipeline_config.toml")
	writeFile(t, file, config)
	cmd = exec.Command(self, "serve", "--config", file, "--http", "127.0.0.1:0", "--auth", "none")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+dir)
	log, w, err := os.Pipe() // not StderrPipe, as Wait would close it while it is read
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
	})
	lines := bufio.NewReader(log)
	for url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(line, `msg="serving HTTP" url=`); ok {
			url, _, _ = strings.Cut(rest, " ")
		}
	}
	go io.Copy(io.Discard, lines)
	return cmd, url, filepath.Join(dir, "mcpschedd")
}

func send(t *testing.T, method, url, session, body string) *http.Response {
	t.Helper()
	answer, err := request(method, url, session, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func request(method, url, session, body string) (*http.Response, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	return http.DefaultClient.Do(r)
}

// An interrupted check prints what it knows, and of no server that did not answer that it cannot be used.
func TestCheckInterrupted(t *testing.T) {
	homely(t)
	file := filepath.Join(t.TempDir(), "config.toml")
	config := upstreamConfig(mcptest.Options{Name: "mute", Start: "mute"}) + upstreamConfig(mcptest.Options{Name: "off"}) + "enabled = false\n"
	writeFile(t, file, config)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	err := execute(ctx, []string{"check", "--connect", "--config", file}, &stdout, &stderr)
	if _, rows, _ := strings.Cut(stdout.String(), "\n"); !errors.Is(err, context.Canceled) || stderr.Len() > 0 ||
		rows != "0 of 1 servers work\n– mute: it has not answered yet\n– off: enabled = false\n" {
		t.Errorf("got %v\n%s%s", err, &stdout, &stderr)
	}
}
