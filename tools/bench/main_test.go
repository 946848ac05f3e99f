package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// TestMain makes the test binary every process that a run starts: the roles of this program, cat,
// and a stand-in for the proxy that only relays, so that a run compares the relay with itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case rawUpstream, sdkUpstream, relayed, plainRelay, "httprelay":
			main()
			os.Exit(0)
		case "cat":
			io.Copy(os.Stdout, os.Stdin)
			os.Exit(0)
		case "serve":
			os.Exit(serve(os.Args[2:]))
		}
	}
	// With the race detector every process would otherwise wait for a second at its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// serve takes the proxy's command line and configuration and starts a relay.
func serve(args []string) int {
	var config struct {
		Upstreams struct {
			Bench struct {
				Command string
				Args    []string
			}
		}
	}
	if _, err := toml.DecodeFile(args[slices.Index(args, "--config")+1], &config); err != nil {
		return 2
	}
	b := config.Upstreams.Bench
	role := []string{"relay"}
	if i := slices.Index(args, "--http"); i >= 0 {
		role = []string{"httprelay", args[i+1]}
	}
	if err := run(context.Background(), slices.Concat(role, []string{b.Command}, b.Args), io.Discard, os.Stderr); err != nil {
		return 1
	}
	return 0
}

// testLab returns a lab with the test binary as the proxy.
func testLab(t *testing.T) *lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLab(options{mode: "speed", bin: self, kind: "both", quick: true}, t.TempDir(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryTargetAnswersBehindEveryFront(t *testing.T) {
	want := map[string][]string{stdio: {direct, relayed, proxied}, overHTTP: {relayed, proxied}}
	for _, c := range []cell{
		{rawUpstream, stdio, 1 << 10, 4}, {rawUpstream, overHTTP, 1 << 10, 4},
		{sdkUpstream, stdio, 1 << 10, 4}, {sdkUpstream, overHTTP, 1 << 10, 4},
	} {
		t.Run(c.upstream+" "+c.front, func(t *testing.T) {
			targets, err := testLab(t).startAll(t.Context(), c.front, c.upstream)
			if err != nil {
				t.Fatal(err)
			}
			defer stopAll(targets)
			var runners []*runner
			var got []string
			for _, target := range targets {
				got = append(got, target.name)
				r, err := newRunner(c, target, time.Millisecond)
				if err != nil {
					t.Fatal(target.fail(err))
				}
				if err := r.turn(time.Millisecond); err != nil {
					t.Fatal(target.fail(err))
				}
				runners = append(runners, r)
			}
			if d := cmp.Diff(want[c.front], got); d != "" {
				t.Errorf("targets (-want +got):\n%s", d)
			}
			row := newRow(c, runners)
			if row.Latency == nil || row.Latency.Rounds != 1 {
				t.Errorf("got ratio %+v, want one round", row.Latency)
			}
			for _, col := range row.Columns {
				if col.Calls < 1 { // how many more there are depends on the machine
					t.Errorf("%s: got no calls", col.Name)
				}
			}
		})
	}
}

func TestStopEndsTheProcess(t *testing.T) {
	l := testLab(t)
	for _, front := range []string{stdio, overHTTP} {
		target, err := l.startOne(t.Context(), front, rawUpstream, proxied)
		if err != nil {
			t.Fatal(err)
		}
		target.stop()
		if target.cmd.ProcessState == nil {
			t.Errorf("%s: got a running process, want an ended one", front)
		}
	}
}

func TestFailShowsTheLastWords(t *testing.T) {
	l := testLab(t)
	_, err := l.startStdio(t.Context(), "broken", []string{l.self, "relay", filepath.Join(l.dir, "missing")})
	if err == nil || !strings.Contains(err.Error(), "relay: ") {
		t.Errorf("got %v, want the stderr of the process", err)
	}
}

func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"unknown mode", []string{"-mode", "race"}, false},
		{"unknown flag", []string{"-fast"}, false},
		{"surplus argument", []string{"quick"}, false},
		{"versions of one build", []string{"-mode", "versions"}, false},
		{"an earlier build that nothing is done with", []string{"-old", "x"}, false},
		{"no such earlier build", []string{"-mode", "versions", "-bin", os.Args[0], "-old", filepath.Join(t.TempDir(), "none")}, false},
		{"help", []string{"-h"}, true},
		{"no such binary", []string{"-bin", filepath.Join(t.TempDir(), "none")}, false},
		{"no such cell", []string{"-bin", os.Args[0], "-only", "2KB"}, false},
		{"relay without a command", []string{"relay"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if err := run(t.Context(), tc.args, &stdout, &stderr); (err == nil || errors.Is(err, flag.ErrHelp)) != tc.ok {
				t.Errorf("got %v; stderr:\n%s", err, &stderr)
			}
			if stdout.Len() > 0 {
				t.Errorf("got stdout %q, want nothing", &stdout)
			}
		})
	}
}

func TestProcessFigures(t *testing.T) {
	if _, ok := cpuTime(os.Getpid()); !ok {
		t.Skip("not available on this system")
	}
	for start, _ := cpuTime(os.Getpid()); ; {
		if now, ok := cpuTime(os.Getpid()); !ok || now > start {
			break // the time that this loop uses is visible
		}
	}
	now, peak, ok := resident(os.Getpid())
	if !ok || now <= 0 || peak < now {
		t.Errorf("got resident %d, peak %d, %t, want both and peak the higher", now, peak, ok)
	}
	if _, ok := cpuTime(-1); ok {
		t.Error("got the time of a process that does not exist")
	}
	if _, _, ok := resident(-1); ok {
		t.Error("got the memory of a process that does not exist")
	}
}
