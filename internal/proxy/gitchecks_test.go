package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
)

// A file system that hangs delays a session's reader for at most half a second, and blocks at most four
// goroutines.
func TestGitChecks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		checks, hang := make(gitChecks, maxGitChecks), make(chan bool)
		if !checks.run(func() bool { return true }) || checks.run(func() bool { return false }) {
			t.Error("run does not return the result of a fast check")
		}
		synctest.Wait()
		for i := range maxGitChecks + 1 {
			began := time.Now()
			if checks.run(func() bool { return <-hang }) {
				t.Error("git is taken for plain though its configuration was not seen")
			}
			want := gitCheckTimeout
			if i == maxGitChecks {
				want = 0
			}
			if took := time.Since(began); took != want {
				t.Errorf("look %d held the reader up for %v, want %v", i, took, want)
			}
		}
		close(hang)
		synctest.Wait()
		if !checks.run(func() bool { return true }) {
			t.Error("checks that have ended still count")
		}
	})
}
