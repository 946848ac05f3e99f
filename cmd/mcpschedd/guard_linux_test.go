package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcpschedd/internal/guard"
	"mcpschedd/internal/mcptest"
)

// mostGuard is the maximum memory of a proxy's guard, in KiB.
const mostGuard = 4 << 10

// If the guard's program is beside the proxy's, it is used, and takes little memory. If it ends at once, it is not started
// again: the proxy's own program takes its place. Both end the processes that a killed proxy leaves.
func TestGuardProgram(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir := t.TempDir()
		small, program := filepath.Join(dir, guard.Program), filepath.Join(dir, "mcpschedd")
		copyFile(t, program, os.Args[0])
		want := small
		if damaged {
			writeFile(t, small, "#!/bin/sh\nexit 0\n")
			want = program
			if err := os.Chmod(small, 0o700); err != nil {
				t.Fatal(err)
			}
		} else {
			copyProgram(t, small)
		}

		beacon := mcptest.NewGate(t)
		p := startProgramAt(t, program, upstreamConfig(mcptest.Options{Name: "a", Beacon: beacon.Addr(), Family: true, Stays: true}))
		p.ask(t, hello)
		family := []*mcptest.Visitor{beacon.Next(), beacon.Next()}
		p.ask(t, echo(1)) // the guard knows a server before that has any request
		pid := guardOf(t, p.cmd.Process.Pid)
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != want {
			t.Errorf("the guard is %q, %v, want %s", exe, err, want)
		}
		resident, err := strconv.Atoi(mcptest.ProcStatus(pid, "VmRSS"))
		if !damaged && (err != nil || resident == 0 || resident > mostGuard) {
			t.Errorf("got %d KiB resident, %v, want at most %d", resident, err, mostGuard)
		}
		p.cmd.Process.Kill()
		for _, v := range family {
			v.Gone()
		}
	}
}

// copyProgram copies the program of that name.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	program, err := mcptest.Program(filepath.Base(to))
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, to, program)
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	r, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// guardOf waits until a proxy's guard has started and reads its pipe.
func guardOf(t *testing.T, proxy int) (found int) {
	t.Helper()
	mcptest.Eventually(t, "there is a guard", func() bool {
		for _, pid := range mcptest.ChildrenOf(proxy) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.HasSuffix(string(line), "\x00"+guard.Command+"\x00") && mcptest.Ignores(pid, 1) {
				found = pid
			}
		}
		return found != 0
	})
	return found
}
