package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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
	resident, err := strconv.Atoi(statusOf(pid, "VmRSS"))
	if err != nil || resident == 0 || resident > mostGuard {
		t.Errorf("got %d KiB resident, %v, want at most %d", resident, err, mostGuard)
	}
	t.Logf("the guard has %d KiB resident, the proxy %s", resident, statusOf(p.cmd.Process.Pid, "VmRSS"))
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
func guardOf(t *testing.T, proxy int) int {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(time.Minute)
	for {
		folders, _ := filepath.Glob("/proc/[0-9]*")
		for _, folder := range folders {
			pid, _ := strconv.Atoi(filepath.Base(folder))
			line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
			ignored, _ := strconv.ParseUint(statusOf(pid, "SigIgn"), 16, 64)
			if strings.HasSuffix(string(line), "\x00"+guard.Command+"\x00") && statusOf(pid, "PPid") == strconv.Itoa(proxy) && ignored&1 != 0 {
				return pid
			}
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatal("there is no guard")
		}
	}
}

// statusOf returns a value of /proc/PID/status; "" if there is no such process.
func statusOf(pid int, name string) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(strings.TrimSpace(line), " kB")
}
