//go:build unix

package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcpschedd/internal/demo"
)

// fast leaves think and tool times of at most a few milliseconds.
const fast = 1000

func options(t *testing.T) (demo.Options, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// What Run leaves behind would lie here.
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(pidsVariable, t.TempDir())
	// Under the race detector every child would sleep for a second at its end.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	var out, log bytes.Buffer
	return demo.Options{Stdout: &out, Stderr: &log, Speed: fast, Executable: self}, &out, &log
}

// checkGone fails if a process or a file of the demo is left.
func checkGone(t *testing.T, processes int) {
	t.Helper()
	pids, err := os.ReadDir(os.Getenv(pidsVariable))
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) != processes {
		t.Errorf("got %d processes started, want %d", len(pids), processes)
	}
	for _, f := range pids {
		pid, _ := strconv.Atoi(f.Name())
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d after the run: got %v, want it gone", pid, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: got %q, %v, want nothing", left, err)
	}
}

func TestRun(t *testing.T) {
	o, out, log := options(t)
	if err := demo.Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	checkGone(t, 10) // two upstreams, then a proxy with two more; the same again for the plan
	for _, want := range []string{
		"20 calls in 15 turns",
		"are divided by 1000.",
		" prefetched  ",             // as the proxy's _meta says, for list_directory alone
		"2 prefetches made: 1 used", // as its stats say
		"21 calls sent to the servers for the agent's 20: 1.05 each",
		"All 20 answers were the same to the byte.",
		"  a call a turn      11 turns ",
		"  execute_tool_plan   1 turn ",
		"claude mcp add mcpschedd -- mcpschedd serve",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got a table without %q:\n%s", want, out)
		}
	}
	if got := strings.Count(log.String(), "\n"); got != 40 {
		t.Errorf("got %d lines of progress, want one per call, 40:\n%s", got, log)
	}
}

func TestRunJSON(t *testing.T) {
	o, out, log := options(t)
	o.JSON = true
	if err := demo.Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	var r struct {
		Turns int
		Calls []struct {
			Tool      string
			DirectMs  float64 `json:"direct_ms"`
			ThroughMs float64 `json:"mcpschedd_ms"`
			Answered  string
			ReadOnly  bool `json:"read_only"`
		}
		Direct, Mcpschedd struct {
			ReadMs float64 `json:"read_only_ms"`
		}
		Equal bool
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Turns != 15 || len(r.Calls) != 20 || !r.Equal {
		t.Errorf("got %d turns, %d calls, equal %v, want 15, 20, true", r.Turns, len(r.Calls), r.Equal)
	}
	if r.Direct.ReadMs <= 0 || r.Mcpschedd.ReadMs <= 0 {
		t.Errorf("waits on calls that only read: got %v and %v ms, want both measured", r.Direct.ReadMs, r.Mcpschedd.ReadMs)
	}
	for i, c := range r.Calls {
		if c.ReadOnly != (c.Tool != "update_issue") {
			t.Errorf("call %d, %s: got read-only %v", i+1, c.Tool, c.ReadOnly)
		}
		want := "fetched"
		if c.Tool == "list_directory" {
			want = "prefetched"
		}
		if c.Answered != want {
			t.Errorf("call %d, %s: got answered %q, want %q", i+1, c.Tool, c.Answered, want)
		}
		if c.DirectMs <= 0 || c.ThroughMs <= 0 {
			t.Errorf("call %d: got %v and %v ms, want both measured", i+1, c.DirectMs, c.ThroughMs)
		}
	}
}

func TestRunAnswersDiffer(t *testing.T) {
	o, out, _ := options(t)
	t.Setenv(proxyVariable, "tamper")
	err := demo.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "direct and mcpschedd differ") {
		t.Errorf("got error %v, want that the answers differ", err)
	}
	if !strings.Contains(out.String(), "DIFFERS") || strings.Contains(out.String(), "the same to the byte") {
		t.Errorf("got a table that hides the difference:\n%s", out)
	}
}

func TestRunPlanDiffers(t *testing.T) {
	o, _, _ := options(t)
	t.Setenv(proxyVariable, "swap")
	if err := demo.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the plan brought other answers") {
		t.Errorf("got error %v, want that the plan's answers differ", err)
	}
}

// Without its account of itself there would be nothing to show but what the demo
// thinks that mcpschedd did.
func TestRunNoAccount(t *testing.T) {
	o, out, _ := options(t)
	t.Setenv(proxyVariable, "mute")
	err := demo.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "mcpschedd: mcpschedd://stats: ") || !strings.Contains(err.Error(), "no comment") {
		t.Errorf("got error %v, want what could not be read, and why", err)
	}
	if out.Len() > 0 {
		t.Errorf("got a table without it:\n%s", out)
	}
	checkGone(t, 5)
}

func TestRunProxyDies(t *testing.T) {
	o, _, _ := options(t)
	t.Setenv(proxyVariable, "die")
	err := demo.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "serve --config") || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got error %v, want the command and its last words", err)
	}
	checkGone(t, 3)
}

func TestRunNoExecutable(t *testing.T) {
	o, _, _ := options(t)
	o.Executable = filepath.Join(t.TempDir(), "none")
	if err := demo.Run(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, os.ErrNotExist)
	}
}

// writerFunc sees each line of progress.
type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestRunInterrupted(t *testing.T) {
	for _, test := range []struct {
		name      string
		at        string // cancelled at the line of progress that begins so
		processes int    // started until then
	}{
		{"direct", "direct     turn  4", 2},
		{"through mcpschedd", "mcpschedd  turn  4", 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, out, _ := options(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o.Stderr = writerFunc(func(line string) {
				if strings.HasPrefix(line, test.at) {
					cancel()
				}
			})
			if err := demo.Run(ctx, o); err != context.Canceled {
				t.Errorf("got error %v, want %v", err, context.Canceled)
			}
			if out.Len() > 0 {
				t.Errorf("got output of half a run:\n%s", out)
			}
			checkGone(t, test.processes)
		})
	}
}

func TestRunKeep(t *testing.T) {
	o, out, log := options(t)
	o.Keep = filepath.Join(t.TempDir(), "new", "folder")
	t.Setenv(proxyVariable, "kept")
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp") // the small proxy ends with an error if it is told
	if err := demo.Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if info, err := os.Stat(o.Keep); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v; want a folder of this user's own", info, err)
	}
	if want := "\n  mcpschedd stats " + o.Keep + "/events\n  mcpschedd dashboard " + o.Keep + "/events\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s, want %s at its end", out, want)
	}
	if err := os.WriteFile(filepath.Join(o.Keep, "offers.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := demo.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("again: got %v, want that there is something in it", err)
	}
	o.Keep = filepath.Join(o.Keep, "offers.json")
	if err := demo.Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "keep: ") {
		t.Errorf("a file: got %v", err)
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/a-b_c.d": "/tmp/a-b_c.d", "my folder": "'my folder'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "~x": "'~x'", "-f": "'-f'", "": "", `a\b`: `'a\b'`, "é": "'é'",
	} {
		if got := demo.Quoted(path); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

func TestRunBadSpeed(t *testing.T) {
	o, _, _ := options(t)
	o.Speed = -1
	if err := demo.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "speed -1") {
		t.Errorf("got error %v, want one that names the speed", err)
	}
}

func TestRunUpstreamErrors(t *testing.T) {
	for _, test := range []struct{ name, upstream, speed, want string }{
		{"unknown upstream", "mail", "", `upstream "mail": want "tracker" or "files"`},
		{"speed is no number", "files", "fast", "MCPSCHEDD_DEMO_SPEED: "},
		{"speed of zero", "files", "0", "MCPSCHEDD_DEMO_SPEED: speed 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("MCPSCHEDD_DEMO_SPEED", test.speed)
			err := demo.RunUpstream(t.Context(), test.upstream, strings.NewReader(""), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func TestRunUpstreamEnds(t *testing.T) {
	in, client, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- demo.RunUpstream(ctx, "files", in, &bytes.Buffer{}) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("after the end of ctx: got %v, want nil", err)
	}
	client.Close()
	if err := demo.RunUpstream(t.Context(), "files", in, &bytes.Buffer{}); err != nil {
		t.Errorf("after the end of its input: got %v, want nil", err)
	}
}
