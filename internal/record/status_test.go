package record_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/record"
)

// The status of a process is written soon after a change, also with events off, and removed when
// the process ends.
func TestStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new")
		var asked, memory atomic.Int64
		memory.Store(1)
		l := record.Open(record.Options{Dir: dir, Off: true, Begin: record.Event{Transport: "stdio", Dir: "/p"}, Status: func() record.Status {
			asked.Add(1)
			return record.Status{MemoryKB: memory.Load()}
		}})
		settle := func() record.Status {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			all := record.ReadStatuses(dir)
			if len(all) != 1 {
				t.Fatalf("got %+v, want one status", all)
			}
			return all[0]
		}
		if s := settle(); s.Process != l.Process() || s.PID != os.Getpid() || s.Transport != "stdio" || s.Dir != "/p" || s.Since.IsZero() || s.MemoryKB != 1 {
			t.Errorf("at first: got %+v", s)
		}
		file := filepath.Join(dir, l.Process()+".status.json")
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("got %v, %v; want a file for this user only", info, err)
		}
		before := asked.Load()
		for range 100 {
			l.StatusChanged()
		}
		memory.Store(2)
		if s := settle(); s.MemoryKB != 2 || asked.Load() > before+2 {
			t.Errorf("after many changes: got %+v with %d calls of Status", s, asked.Load()-before)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		l.StatusChanged()
		settle() // it is written again
		l.StatusChanged()
		l.Close()
		l.StatusChanged()
		if names := paths(t, dir); len(names) != 0 {
			t.Errorf("at the end: got %v, want nothing", names)
		}
	})
}

// The status of a killed process is ignored and removed.
func TestStatusOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	child := startChild(t, "forever", dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	process := must(record.Files(dir))[0].Process
	file := write(t, filepath.Join(dir, process+".status.json"), `{"process":"`+process+`","pid":1,"hosts":{"h":{"cooling_ms":90000}}}`)
	bare := write(t, filepath.Join(dir, "20260101T000000-1-0000abcd.status.json"), `{"process":"20260101T000000-1-0000abcd"}`) // has no lock
	for _, tt := range []struct {
		written time.Time
		cooling float64
	}{{time.Now().Add(time.Hour), 90000}, {time.Now().Add(-time.Hour), 0}} { // its cool-down ends without a new status
		_ = os.Chtimes(file, tt.written, tt.written)
		if all := record.ReadStatuses(dir); len(all) != 1 || all[0].PID != 1 || all[0].Hosts["h"].CoolingMS != tt.cooling {
			t.Errorf("while it runs: got %+v", all)
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if all := record.ReadStatuses(dir); len(all) != 0 {
		t.Errorf("when it was killed: got %+v, want none", all)
	}
	for _, path := range paths(t, dir) {
		before := time.Now().Add(-time.Minute)
		os.Chtimes(filepath.Join(dir, path), before, before)
	}
	l := record.Open(record.Options{Dir: dir, Off: true, Status: func() record.Status { return record.Status{} }})
	l.Flush()
	l.Close()
	for _, path := range []string{file, bare} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}
