package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// stamp is the layout of the start time (UTC) in the name of a process.
const stamp = "20060102T150405"

// processFile matches the names of the files that a process writes: log parts, lock and status.
var processFile = regexp.MustCompile(`^(\d{8}T\d{6}-\d+-[0-9a-f]{4,8})\.(?:(\d{3,9})\.jsonl(?:\.gz)?|lock|status\.json)$`)

// File is one part of the log of a process.
type File struct {
	Path     string
	Process  string    // name of the process; the base name of a file that is not named by processFile
	Running  bool      // the process has not ended
	Size     int64     // bytes
	Modified time.Time // time of the last write
}

// Files lists the *.jsonl and *.jsonl.gz files of a folder by name, which is by the start of
// their process and then by part. It lists only regular files and links to them, and none if the
// folder does not exist.
func Files(dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl") {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // a pipe might never end
			files = append(files, newFile(path, info))
		}
	}
	return files, err
}

// newFile returns the File at path, with the process that its name states.
func newFile(path string, info os.FileInfo) File {
	f := File{Path: filepath.Clean(path), Process: filepath.Base(path), Size: info.Size(), Modified: info.ModTime()}
	if m := processFile.FindStringSubmatch(f.Process); m != nil {
		f.Process = m[1]
		f.Running = isRunning(filepath.Dir(path), f.Process)
	}
	return f
}

// filesNamed returns the files that a name of [Read] stands for.
func filesNamed(name string) ([]File, error) {
	if name == "-" {
		return []File{{Path: name, Process: name}}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{newFile(name, info)}, nil
	}
	all, err := Files(name)
	if err == nil && len(all) == 0 {
		err = errors.New("no *.jsonl in this folder")
	}
	return all, err
}

// removeOld removes logs older than keepAge, the oldest logs beyond keepBytes, and what killed
// processes left. A process whose log is removed while it runs begins another.
func removeOld(dir string, keepBytes int64, keepAge time.Duration) {
	entries, _ := os.ReadDir(dir) // without a list there is nothing to remove
	for _, entry := range entries {
		m := processFile.FindStringSubmatch(entry.Name())
		info, err := entry.Info()
		if m == nil || m[2] != "" || err != nil || time.Since(info.ModTime()) < startTime || isRunning(dir, m[1]) {
			continue // a process that starts may not hold the lock yet
		}
		_ = os.Remove(filepath.Join(dir, entry.Name())) // another process may have removed it already
	}
	files, _ := Files(dir)
	slices.SortStableFunc(files, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	var kept int64
	for _, f := range files {
		if !processFile.MatchString(filepath.Base(f.Path)) {
			continue // of another program
		}
		if kept += f.Size; kept > keepBytes || time.Since(f.Modified) > keepAge {
			_ = os.Remove(f.Path)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// processLock is a file lock that shows that a process is running: the system releases it
// however the process ends. The locked file lies beside the log, since on Windows a lock on the
// log itself would keep readers out. On file systems without locks every process counts as ended.
type processLock struct {
	dir, process string
	lock         *flock.Flock // nil if it is not held
}

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// startTime is how long a process may take from creating its lock file to holding the lock.
const startTime = time.Second

// acquire creates the folder and takes the lock, unless it is held and the file is still there:
// the folder may have been removed since. It comes before any other file is created, as one
// without a lock counts as that of an ended process.
func (l *processLock) acquire() error {
	path := lockPath(l.dir, l.process)
	if l.lock != nil && exists(path) {
		return nil
	}
	l.release()
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	l.lock = flock.New(path, flock.SetPermissions(0o600))
	err := l.lock.Lock() // at once, as readers hold it for a moment only
	if _, unopened := errors.AsType[*os.PathError](err); unopened {
		return err
	}
	return nil // a lock that cannot be taken keeps nothing from being written
}

// release removes the lock file and releases the lock.
func (l *processLock) release() {
	if l.lock != nil {
		_ = os.Remove(l.lock.Path()) // fails on Windows while the file is open
		_ = l.lock.Close()
		l.lock = nil
	}
}

// isRunning reports whether a process holds its lock.
func isRunning(dir, process string) bool {
	lock := flock.New(lockPath(dir, process), flock.SetFlag(os.O_RDWR)) // without O_CREATE
	free, err := lock.TryRLock()                                        // shared, so that several processes can ask at once
	_ = lock.Close()
	return err == nil && !free
}
