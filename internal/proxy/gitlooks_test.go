package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
)

// A file system that hangs holds up a session's reader for half a second, and at most four
// goroutines.
func TestGitLooks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		looks, hang := make(gitLooks, mostGitLooks), make(chan bool)
		if !looks.soon(func() bool { return true }) || looks.soon(func() bool { return false }) {
			t.Error("what was seen at once is not what is said")
		}
		synctest.Wait()
		for i := range mostGitLooks + 1 {
			began := time.Now()
			if looks.soon(func() bool { return <-hang }) {
				t.Error("git is taken for plain though its configuration was not seen")
			}
			want := gitLookTime
			if i == mostGitLooks {
				want = 0
			}
			if took := time.Since(began); took != want {
				t.Errorf("look %d held the reader up for %v, want %v", i, took, want)
			}
		}
		close(hang)
		synctest.Wait()
		if !looks.soon(func() bool { return true }) {
			t.Error("looks that have ended still count")
		}
	})
}
