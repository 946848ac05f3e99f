package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
)

// pseudoTerminal returns a terminal of that size, and its other end.
func pseudoTerminal(t *testing.T, width, height uint16) (terminal, shown *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals, as in some containers: ", err)
	}
	t.Cleanup(func() { shown.Close() })
	fd := int(shown.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
	}
	if err == nil {
		terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("this machine gives out no pseudo-terminal, as in some containers: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, shown
}

// On a terminal, new figures replace the previous ones.
func TestStatsWatchOnATerminal(t *testing.T) {
	terminal, shown := pseudoTerminal(t, 20, 10)
	f := &statsFlags{watch: true}
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		same := record.View{Period: "today", Notes: []record.Warning{{Message: "mcpschedd is not running."}}}
		more := same
		more.Stats.Totals.Plans, more.Period = 1, ""
		l := looks{[]any{same, same, more}, cancel}
		if err := f.watchFigures(ctx, l.look, terminal, io.Discard); err != nil {
			t.Error(err)
		}
	})
	r := bufio.NewReader(shown)
	for _, saved := range []string{"No calls today.", "Saved 0 ms of 0 ms waiting."} {
		want := "\x1b[H\x1b[J" + saved + "\r\nmcpschedd is not running.\r\n"
		picture := make([]byte, len(want))
		if _, err := io.ReadFull(r, picture); err != nil || string(picture) != want {
			t.Errorf("got %q, %v, want %q", picture, err, want)
		}
	}
}

// A million events are read and added up within 10 s and 200 MB.
//
//	MCPSCHEDD_SOAK=1 go test -run TestStatsSoak -v ./cmd/mcpschedd
func TestStatsSoak(t *testing.T) {
	if os.Getenv("MCPSCHEDD_SOAK") == "" {
		t.Skip("a soak of a million events: MCPSCHEDD_SOAK=1 runs it")
	}
	const n = 1_000_000
	file := filepath.Join(t.TempDir(), "20260101T100000-7-00aa.000.jsonl")
	size := recordMany(t, file, n)
	for _, args := range [][]string{
		{"stats", file},
		{"stats", file, "--json"},
		{"stats", file, "--csv"},
		{"tune", file},
	} {
		how := strings.Join(slices.Concat(args[:1], args[2:]), " ")
		c := statsProgram(t, args...)
		var out counted
		var stderr bytes.Buffer
		c.Stdout, c.Stderr = &out, &stderr
		began := time.Now()
		if err := c.Run(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, stderr.String())
		}
		took, busy := time.Since(began), c.ProcessState.UserTime()+c.ProcessState.SystemTime()
		peak := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		t.Logf("%-18s %d events of %d MB: %.1f s, %.1f s of CPU, %d MB at the peak; %d lines, %d bytes", how, n, size>>20,
			took.Seconds(), busy.Seconds(), peak>>20, out.lines, out.bytes)
		if peak > 200<<20 || busy > 10*time.Second {
			t.Errorf("%v: %d MB, %v of CPU", args, peak>>20, busy)
		}
	}
}

// counted is an output that only counts.
type counted struct{ lines, bytes int }

func (c *counted) Write(b []byte) (int, error) {
	c.lines += bytes.Count(b, []byte("\n"))
	c.bytes += len(b)
	return len(b), nil
}

// recordMany writes a log of n events, in sessions of 200 lines, eight of them concurrent, with
// calls of 200 tools. Every other call has a prefetch and a choice.
func recordMany(t *testing.T, file string, n int) (size int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	at := time.UnixMicro(1_767_261_600_000_000)
	var line []byte
	add := func(e record.Event) {
		e.At = at
		line = appendLine(line[:0], &e)
		size += int64(len(line))
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	add(record.Event{Kind: record.Begin, V: record.Version, PID: 7, Transport: "stdio"})
	for i := range n - 1 {
		at = at.Add(50 * time.Millisecond)
		lane, turn := i%8, i/8%200
		e := record.Event{Session: fmt.Sprintf("%08x", i/1600*8+lane), Seq: int64(turn)}
		tool := i * 7 % 200
		switch {
		case turn == 0:
			e.Kind, e.Client = record.Session, "claude-code 2.1"
		case turn == 199:
			e.Kind = record.End
		case turn%4 == 2:
			e.Kind, e.Fate, e.UsedBy, e.After, e.PredictedP = record.Prefetch, record.Used, e.Seq+1, e.Seq-1, 0.7
			e.LatencyMS, e.Edge, e.Sent = 230.5, "get_issue follows list_issues: owner, repo from its arguments", 1
		case turn%4 == 0:
			e.Kind, e.Candidates, e.Issued, e.Declined = record.Decision, 4, 1, map[string]int{"gate": 2, "budget": 1}
			e.Top = []record.Candidate{{Tool: "github/get_issue", P: 0.7}, {Tool: "github/get_file", P: 0.2, Reason: "gate"}}
		default:
			e.Kind, e.Disposition, e.LatencyMS, e.UpstreamMS, e.Sent = record.Call, record.Fetched, 180.25+float64(i%97), 180, 1
			if turn%4 == 3 {
				e.Disposition, e.Prefetched, e.UseOf, e.HiddenMS, e.Sent = record.Hit, true, e.Seq-1, 229.5, 0
			}
			e.Turn, e.Class, e.ResultHash, e.Host = turn, "read_only", fmt.Sprintf("%016x", i), "api.github.com"
		}
		if e.Kind == record.Call || e.Kind == record.Prefetch {
			e.Upstream, e.Tool = fmt.Sprintf("server%d", tool%5), fmt.Sprintf("tool_%d", tool)
			e.ArgsHash, e.Bytes, e.Tokens = fmt.Sprintf("%016x", i*31), int64(400+i%5000), int64(100+i%1250)
		}
		add(e)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return size
}

// While the disk is full, the state of running processes is old, and stats says so.
func TestStatsOnAFullDisk(t *testing.T) {
	dir := filepath.Join(homely(t), "mcpschedd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("full", dir, "tmpfs", 0, "size=1m,mode=0700"); errors.Is(err, os.ErrPermission) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	log := record.Open(record.Options{
		Dir:    filepath.Join(dir, eventsFolder),
		Begin:  record.Event{At: time.Now(), PID: os.Getpid(), Transport: "stdio"},
		Status: func() record.Status { return record.Status{} },
	})
	defer log.Close()
	const full = "Nothing can be recorded now, and what follows may be old: "
	mcptest.Eventually(t, "stats shows the process, and nothing wrong", func() bool {
		text := statsText(t)
		return strings.Contains(text, "\nprocess ") && !strings.Contains(text, full)
	})
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want a full disk", err)
	}
	if text := statsText(t); !strings.Contains(text, full) || !strings.Contains(text, "no space left on device.\n") {
		t.Errorf("got\n%s\nwant %s", text, full)
	}
}

// statsText returns what stats prints.
func statsText(t *testing.T) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := execute(t.Context(), []string{"stats"}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}
