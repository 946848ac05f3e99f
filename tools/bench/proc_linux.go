package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"mcpschedd/internal/guard"
)

// tick is the unit of the times in /proc/PID/stat; Linux reports hundredths of
// a second to programs whatever the kernel counts in.
const tick = 10 * time.Millisecond

// cpuTime returns the processor time that the process pid has used itself, its
// children not counted. ok is false where it cannot be told.
func cpuTime(pid int) (used time.Duration, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field is the command in brackets and may hold anything.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, err1 == nil && err2 == nil
}

// guardOf returns the process that a proxy has started as its guard; 0: none is
// there.
func guardOf(pid int) int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(children) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				continue
			}
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if args := bytes.Split(line, []byte{0}); err == nil && len(args) > 1 && string(args[1]) == guard.Command {
				return child
			}
		}
	}
	return 0
}

// resident returns the resident memory of the process pid and its highest
// value so far, in bytes.
func resident(pid int) (now, peak int64, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, false
	}
	for line := range bytes.Lines(status) {
		f := bytes.Fields(line)
		if len(f) != 3 || string(f[2]) != "kB" {
			continue
		}
		n, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			continue
		}
		switch string(f[0]) {
		case "VmRSS:":
			now, ok = n<<10, true
		case "VmHWM:":
			peak = n << 10
		}
	}
	return now, peak, ok
}
