package front_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcpschedd/internal/front"
)

// A client that reconnects gets many small responses in time proportional to their number. The
// test measures the CPU time of the thread, so that other load does not matter.
func TestLongQueueIsDrained(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	drained := func(answers int) time.Duration {
		q := front.NewQueue()
		for i := range answers {
			if err := q.Answer(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, i)); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		began := computed(t)
		if err := q.Drain(w); err != nil {
			t.Fatal(err)
		}
		took := computed(t) - began
		if got := bytes.Count(w.Body.Bytes(), []byte("data: ")); got != answers {
			t.Errorf("got %d answers, want %d", got, answers)
		}
		return took
	}
	few, many := drained(1_000), drained(20_000)
	if many > 60*few { // for twenty times as many messages
		t.Errorf("20000 answers took %v, 1000 took %v", many, few)
	}
}

// computed returns the CPU time of the calling thread.
func computed(t *testing.T) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}
