//go:build unix

package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcpschedd/internal/state"
)

// A file with a group that its user is not in, such as one that was moved from a folder of another group,
// can be edited. Its next group may not do more than every user.
func TestFileWriteWithAnotherGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file such a group")
	}
	dir, err := os.MkdirTemp("", "s") // the parent of t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for mode, want := range map[os.FileMode]os.FileMode{0o600: 0o600, 0o640: 0o600, 0o664: 0o644} {
		name := put(t, filepath.Join(dir, "c.toml"), "old", mode)
		for path, group := range map[string]int{dir: 12347, name: 12346} {
			if err := os.Chown(path, 12347, group); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Seteuid(12347); err != nil {
			t.Fatal(err)
		}
		err := open(t, name).Write([]byte("new"))
		if err := syscall.Seteuid(0); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		holds(t, name, "new", want)
	}
}

// A file keeps its owner and group if root edits it, and is left alone by another user, who could
// replace it in a folder of their own. Without root, the test has only a file of root and its own.
func TestFileWriteKeepsTheOwner(t *testing.T) {
	name := put(t, filepath.Join(t.TempDir(), "c.toml"), "old", 0o600)
	theirs, user, group := "/etc/passwd", os.Geteuid(), os.Getegid()
	if user == 0 {
		theirs, user, group = name, 12345, 12346
		if err := os.Chown(name, user, group); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, name).Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, name, "new", 0o600)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != user || int(s.Gid) != group {
		t.Errorf("the file belongs to %d:%d, want %d:%d", s.Uid, s.Gid, user, group)
	}
	f := open(t, theirs)
	if os.Geteuid() == 0 {
		if err := syscall.Seteuid(12347); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Seteuid(0); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := f.Writable(); err == nil || !strings.Contains(err.Error(), "belongs to ") {
		t.Errorf("another user's file: got %v", err)
	}
}

// What is no file of ours is neither waited for nor read whole.
func TestReadOfForeignFiles(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir.Path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(put(t, dir.Path("huge"), "", 0o600), 3<<30); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "huge"} {
		for what, err := range map[string]error{
			"Read":   func() error { _, err := dir.Read(name); return err }(),
			"Update": dir.Update(name, func([]byte) ([]byte, error) { return []byte("x"), nil }),
		} {
			if err == nil || !strings.Contains(err.Error(), name+": want a regular file") {
				t.Errorf("%s of %s: got %v", what, name, err)
			}
		}
	}
}
