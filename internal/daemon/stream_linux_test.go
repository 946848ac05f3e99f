package daemon_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/daemon"
)

// A daemon that does not send two descriptors for the messages is refused, and descriptors that
// it sends are closed.
func TestTooFewDescriptors(t *testing.T) {
	p := place(t)
	l, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, fds := range [][]int{nil, {int(null.Fd())}} {
		go func() {
			for range 2 { // Connect tries twice
				conn, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewReader(conn)
				_, helloErr := lines.ReadString('\n')
				_, welcomeErr := fmt.Fprintf(conn, "{\"mcpschedd\":%d}\n", daemon.Protocol)
				_, furtherErr := lines.ReadString('\n')
				_, _, sendErr := conn.(*net.UnixConn).WriteMsgUnix([]byte("\n"), syscall.UnixRights(fds...), nil)
				if err := errors.Join(helloErr, welcomeErr, furtherErr, sendErr); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
		}()
		before := openFiles(t, os.DevNull)
		in := &untouched{}
		err := daemon.Connect(t.Context(), in, io.Discard, daemon.Options{Place: p, Log: slog.New(slog.DiscardHandler), Wait: time.Minute})
		if err == nil || !strings.Contains(err.Error(), "want the ends of two pipes") || in.read {
			t.Errorf("%d descriptors: got %v, want no daemon", len(fds), err)
		}
		if after := openFiles(t, os.DevNull); after != before {
			t.Errorf("%d descriptors: %d of %s are open, %d were", len(fds), after, os.DevNull, before)
		}
	}
}

// openFiles returns the number of this process's descriptors for a file.
func openFiles(t *testing.T, path string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if target, _ := os.Readlink("/proc/self/fd/" + fd.Name()); target == path {
			n++
		}
	}
	return n
}
