package mcptest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Eventually polls ok until it returns true, for conditions without an event to wait for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so within %v: %s", limit, what)
		}
	}
}

// ProcStatus returns a value of /proc/PID/status; "" if there is no such process.
func ProcStatus(pid int, name string) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(strings.TrimSpace(line), " kB")
}

// Ignores reports whether a process ignores a signal.
func Ignores(pid, signal int) bool {
	mask, _ := strconv.ParseUint(ProcStatus(pid, "SigIgn"), 16, 64)
	return mask&(1<<(signal-1)) != 0
}

// ChildrenOf returns the processes that parent has started.
func ChildrenOf(parent int) (found []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		if pid, _ := strconv.Atoi(filepath.Base(folder)); ProcStatus(pid, "PPid") == strconv.Itoa(parent) {
			found = append(found, pid)
		}
	}
	return found
}
