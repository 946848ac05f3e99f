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
var processFile = regexp.MustCompile(`^(\d{8}T\d{6}-\d+-[0-9a-f]{4,8})\.(?:\d{3,9}\.jsonl(?:\.gz)?|lock|status\.json)$`)

// File is a file in the folder of the logs: one part of the log of a process, its lock or its
// status.
type File struct {
	Path     string
	Process  string    // name of the process; the base name of a file that is not named by processFile
	Running  bool      // the process has not ended
	Size     int64     // bytes
	Modified time.Time // time of the last write
}

func (f *File) isLog() bool { return strings.HasSuffix(strings.TrimSuffix(f.Path, ".gz"), ".jsonl") }

// Files lists the *.jsonl and *.jsonl.gz files of a folder by name, which is by the start of
// their process and then by part. It lists only regular files and links to them, and none if the
// folder does not exist.
func Files(dir string) ([]File, error) {
	files, err := allFiles(dir)
	return slices.DeleteFunc(files, func(f File) bool { return !f.isLog() }), err
}

// allFiles is Files with all other files.
func allFiles(dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
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
	files, _ := allFiles(dir) // without a list there is nothing to remove
	slices.SortStableFunc(files, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	var kept int64
	for _, f := range files {
		old, age := false, time.Since(f.Modified)
		switch {
		case !processFile.MatchString(filepath.Base(f.Path)): // of another program
		case f.isLog():
			kept += f.Size
			old = kept > keepBytes || age > keepAge
		default: // a process that starts may not hold the lock yet
			old = age > startTime && !f.Running
		}
		if old {
			_ = os.Remove(f.Path) // another process may have removed it already
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
