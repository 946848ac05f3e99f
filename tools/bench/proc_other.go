//go:build !linux

package main

import "time"

// cpuTime is not told: without /proc a process's own time, apart from its
// children's, is known only after it has ended.
func cpuTime(int) (time.Duration, bool) { return 0, false }

// resident is not told either.
func resident(int) (now, peak int64, ok bool) { return 0, 0, false }

// guardOf is not told either.
func guardOf(int) int { return 0 }
