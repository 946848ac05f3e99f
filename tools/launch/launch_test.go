package launch

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestPolled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	f, err := polled(r)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Only a descriptor that the runtime polls takes a deadline.
	if err := f.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Skip("no polled pipes here:", err)
	}
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a deadline exceeded", err)
	}
}
