//go:build unix

package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/demo"
	"mcpschedd/internal/record"
)

// options returns options with think times and latencies of at most a few milliseconds.
func options(t *testing.T) (demo.Options, *bytes.Buffer) {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir()) // to find files that Run leaves behind
	t.Setenv(pidsVariable, t.TempDir())
	t.Setenv(realVariable, bin)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each child process sleeps for a second at exit
	var out bytes.Buffer
	return demo.Options{Stdout: &out, Speed: 1000, Executable: self}, &out
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
	o, out := options(t)
	var line bytes.Buffer
	o.Terminal = &line
	if err := demo.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	checkGone(t, 10) // two servers, and a proxy with two more; the same again for the plan
	first, _, _ := strings.Cut(out.String(), "\n")
	if !strings.HasPrefix(first, "Through mcpschedd the agent waited ") {
		t.Errorf("got %q first, want the savings", first)
	}
	for _, want := range []string{"20 calls in 15 turns", "divided by 1000.", " for 20 calls, ", "11 calls took one turn"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got a table without %q:\n%s", want, out)
		}
	}
	if !strings.HasSuffix(out.String(), ": mcpschedd import\n") {
		t.Errorf("got no next step at the end:\n%s", out)
	}
	for shown := range strings.SplitSeq(line.String(), "\r\x1b[K") {
		if len(shown) > 40 { // a line that wraps cannot be erased
			t.Errorf("got %q, want it to fit a narrow terminal", shown)
		}
	}
	if got := line.String(); !strings.Contains(got, "\rTurn 15 of 15. ") && !strings.Contains(got, "KTurn 15 of 15. ") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got progress %q, want a line that is erased at the end", got)
	}
}

// The figures of a run with the real program. Waits are computed from the tools' latencies, so the
// load of this machine only matters in that prefetches must fit into think times. If they do not, the
// run is repeated with longer ones. On a busy machine servers start late, so less is prefetched than on
// an idle one.
func TestRunFigures(t *testing.T) {
	// The demo must not export anything to the user's collector.
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the collector got %s", r.URL) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	for _, speed := range []float64{16, 4, 1} {
		all, hidden := runFigures(t, speed)
		if hidden >= all/3 || t.Failed() { // a half, on a machine that is not busy
			return
		}
		t.Logf("at speed %v, of %v of waiting for reads, %v is hidden; want at least a third", speed, all, hidden)
	}
	t.Error("not a third of the waiting is hidden at any speed")
}

// runFigures checks the figures of a run at a speed. It returns the waits for all read-only calls,
// and for those that were answered from the cache.
func runFigures(t *testing.T, speed float64) (all, hidden time.Duration) {
	t.Helper()
	o, out := options(t)
	o.JSON, o.Speed, o.Keep = true, speed, filepath.Join(t.TempDir(), "new", "kept for later")
	if err := demo.Run(t.Context(), o); err != nil { // fails also if an answer differs
		t.Fatal(err)
	}
	var r struct {
		Calls []struct {
			Tool      string
			Arguments map[string]any
			ReadOnly  bool `json:"read_only"`
			Answered  string
			DirectMS  float64 `json:"direct_ms"`
			ThroughMS float64 `json:"mcpschedd_ms"`
		}
		Stats record.Stats
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	answered := map[string]int64{}
	for i, c := range r.Calls {
		answered[c.Answered]++
		if c.DirectMS <= 0 || c.ThroughMS <= 0 {
			t.Errorf("call %d: got %v and %v ms, want both measured", i+1, c.DirectMS, c.ThroughMS)
		}
		early := c.Answered == "hit" || c.Answered == "joined"
		if early && !c.ReadOnly {
			t.Errorf("call %d, %s: a write was answered without its server", i+1, c.Tool)
		}
		if c.ReadOnly {
			wait := demo.Latency(c.Tool, c.Arguments)
			all += wait
			if early {
				hidden += wait
			}
		}
	}
	totals := r.Stats.Totals
	if totals.Amplification > 1.5 {
		t.Errorf("got %.2f calls to the servers per call, want at most 1.5", totals.Amplification)
	}
	if totals.Calls != int64(len(r.Calls)) || totals.Hit != answered["hit"] || totals.Joined != answered["joined"] || totals.Fetched != answered["fetched"] {
		t.Errorf("its record %+v is not what its answers say: %v", totals, answered)
	}
	if totals.Prefetch.Issued < totals.Prefetch.Used || hidden > 0 && (totals.Prefetch.Used == 0 || totals.HiddenMS <= 0) {
		t.Errorf("prefetches: got %+v, want some used, and hidden time", totals)
	}
	text, err := exec.Command(os.Getenv(realVariable), "stats", "--json", filepath.Join(o.Keep, "events")).Output()
	var kept record.Stats
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Totals.Calls != totals.Calls {
		t.Errorf("got a record of %d calls, %v; want %d", kept.Totals.Calls, err, totals.Calls)
	}
	if err := demo.Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "--keep: want a new folder: ") || !errors.Is(err, os.ErrExist) {
		t.Errorf("a second time: got %v, want an error that it exists", err)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	return all, hidden
}

func TestRunProxyDies(t *testing.T) {
	o, out := options(t)
	t.Setenv(realVariable, "")
	err := demo.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "serve --config") || out.Len() > 0 {
		t.Errorf("got error %v, want the command", err)
	}
}

func TestRunInterrupted(t *testing.T) {
	o, out := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Terminal = writerFunc(func(line string) {
		if strings.Contains(line, "Turn 4 ") {
			cancel()
		}
	})
	if err := demo.Run(ctx, o); err != context.Canceled {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	if out.Len() > 0 {
		t.Errorf("got output of half a run:\n%s", out)
	}
	pids, _ := os.ReadDir(os.Getenv(pidsVariable))
	checkGone(t, len(pids))
}

// writerFunc receives each progress line.
type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestRunWithoutTheProgram(t *testing.T) {
	o, _ := options(t)
	o.Executable = filepath.Join(t.TempDir(), "none")
	if err := demo.Run(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, os.ErrNotExist)
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
