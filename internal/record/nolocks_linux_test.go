package record_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcpschedd/internal/record"
)

// forbidLocks has the system refuse locks to this process, as some file systems do.
func forbidLocks() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FLOCK, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOLCK)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Fixed: on a file system without locks nothing was recorded. There a process runs as
// long as it is heard of, and until it says that it ends.
func TestNoLocks(t *testing.T) {
	if os.Getenv("EVENTS_NO_LOCKS") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoLocks$", "-test.v")
		child.Env = append(os.Environ(), "EVENTS_NO_LOCKS=1", "GORACE=atexit_sleep_ms=0")
		out, err := child.CombinedOutput()
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := forbidLocks(); err != nil {
		t.Skip("this system does not refuse locks: ", err)
	}
	dir := t.TempDir()
	var said bytes.Buffer
	l := record.Open(record.Options{Dir: dir, RotateBytes: 1000, Log: slog.New(slog.NewTextHandler(&said, nil))})
	heard := func(ago time.Duration) {
		then := time.Now().Add(-ago)
		if err := os.Chtimes(filepath.Join(dir, l.Process()+".lock"), then, then); err != nil {
			t.Error(err)
		}
	}
	running := func(want bool) {
		t.Helper()
		for _, f := range must(record.Files(dir)) {
			if f.Running != want {
				t.Errorf("%s: running is %t", f.Path, f.Running)
			}
		}
	}
	for seq := range int64(30) {
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq + 1})
		l.Flush()
		running(true)
		heard(record.FreshFor * 9 / 10) // what is written next is heard
	}
	if files := must(record.Files(dir)); len(files) < 2 {
		t.Errorf("got %d files, want several", len(files))
	}
	running(true)
	heard(record.FreshFor * 11 / 10)
	running(false)

	other := record.Open(record.Options{Dir: dir}) // takes the first for one that was killed
	other.Flush()
	if locks := must(filepath.Glob(filepath.Join(dir, "*.lock"))); len(locks) != 1 || !strings.Contains(locks[0], other.Process()) {
		t.Errorf("got locks %v, want that of the other process alone", locks)
	}
	other.Close()
	l.Add(record.Event{Kind: record.Call, Session: "s", Seq: 31}) // but it was not
	l.Flush()
	running(true)
	l.Close()
	running(false)
	inSequence(t, "s", numbers(read(t, dir))["s"], 31)
	if locks := must(filepath.Glob(filepath.Join(dir, "*.lock"))); len(locks) != 0 || l.Lost() != 0 {
		t.Errorf("got locks %v and %d lost, want none", locks, l.Lost())
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), "no locks here") {
		t.Errorf("got %d warnings, want one:\n%s", n, &said)
	}
}
