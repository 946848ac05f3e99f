package main

import (
	"time"

	"github.com/prometheus/procfs"

	"mcpschedd/internal/guard"
)

// cpuTime returns the processor time of the process pid, without its children. ok is false if it
// is not available, as without /proc.
func cpuTime(pid int) (used time.Duration, ok bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err == nil
}

// resident returns the resident memory of the process pid and its maximum so far, in bytes.
func resident(pid int) (now, peak uint64, ok bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, false
	}
	status, err := p.NewStatus()
	return status.VmRSS, status.VmHWM, err == nil
}

// guardOf returns the process that a proxy has started as its guard; 0 for none.
func guardOf(pid int) int {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0
	}
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil || stat.PPID != pid {
			continue // err: it has ended
		}
		if args, err := p.CmdLine(); err == nil && len(args) > 1 && args[1] == guard.Command {
			return p.PID
		}
	}
	return 0
}
