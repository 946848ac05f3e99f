package daemon_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"mcpschedd/internal/daemon"
)

// as runs f as another user, on a thread that ends with it.
func as[T any](uid uintptr, f func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked, so that the thread ends
		// RawSyscall affects only this thread; [syscall.Setresuid] changes all threads.
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			err = errno
			return
		}
		result, err = f()
	}()
	<-done
	return result, err
}

// Another user of this computer cannot open the socket. If the folder is open to all users, the
// daemon refuses other users, and a client refuses another user's daemon.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	const other = 4711
	s := listen(t, place(t))
	folder := filepath.Dir(s.place.Socket)
	for dir := filepath.Dir(folder); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dial := func() (net.Conn, error) { return net.Dial("unix", s.place.Socket) }
	if _, err := as(other, dial); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want no permission", err)
	}
	if err := errors.Join(os.Chmod(folder, 0o777), os.Chmod(s.place.Socket, 0o666)); err != nil {
		t.Fatal(err)
	}
	conn, err := as(other, dial)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, `{"mcpschedd":1,"kind":"session","dir":"/"}`+"\n") // the daemon may have closed it already
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "" {
		t.Errorf("got %q, %v from the daemon of another user, want nothing", got, err)
	}
	s.stop()
	theirs, err := as(other, func() (net.Listener, error) { return net.Listen("unix", s.place.Socket) })
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	in := &untouched{}
	err = daemon.Connect(t.Context(), in, io.Discard, daemon.Options{Place: s.place, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "belongs to the user 4711") || in.read {
		t.Errorf("got %v, want the daemon of another user refused", err)
	}
}
