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

// If the guard's program is beside the proxy's, it is used. It takes little memory, and ends the
// processes that a killed proxy leaves.
func TestGuardIsSmall(t *testing.T) {
	dir := t.TempDir()
	small := filepath.Join(dir, guard.Program)
	copyProgram(t, small)
	program := filepath.Join(dir, "mcpschedd")
	copyFile(t, program, os.Args[0])

	beacon := mcptest.NewGate(t)
	p := startProgramAt(t, program, upstreamConfig(mcptest.Options{Name: "a", Beacon: beacon.Addr(), Family: true, Stays: true}))
	p.ask(t, hello)
	family := []*mcptest.Visitor{beacon.Next(), beacon.Next()}
	p.ask(t, echo(1)) // the guard knows a server before that has any request
	pid := guardOf(t, p.cmd.Process.Pid)
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != small {
		t.Errorf("the guard is %q, %v, want %s", exe, err, small)
	}
	resident, err := strconv.Atoi(mcptest.ProcStatus(pid, "VmRSS"))
	if err != nil || resident == 0 || resident > mostGuard {
		t.Errorf("got %d KiB resident, %v, want at most %d", resident, err, mostGuard)
	}
	t.Logf("the guard has %d KiB resident, the proxy %s", resident, mcptest.ProcStatus(p.cmd.Process.Pid, "VmRSS"))
	p.cmd.Process.Kill()
	for _, v := range family {
		v.Gone()
	}
}

// If the guard's program ends at once, it is not started again: the proxy's own program takes its
// place, and ends the processes that a killed proxy leaves.
func TestGuardOutlivesADamagedOne(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, guard.Program), []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "mcpschedd")
	copyFile(t, program, os.Args[0])

	beacon := mcptest.NewGate(t)
	p := startProgramAt(t, program, upstreamConfig(mcptest.Options{Name: "a", Beacon: beacon.Addr(), Family: true, Stays: true}))
	p.ask(t, hello)
	family := []*mcptest.Visitor{beacon.Next(), beacon.Next()}
	p.ask(t, echo(1)) // the guard knows a server before that has any request
	pid := guardOf(t, p.cmd.Process.Pid)
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != program {
		t.Errorf("the guard is %q, %v, want %s", exe, err, program)
	}
	p.cmd.Process.Kill()
	for _, v := range family {
		v.Gone()
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
