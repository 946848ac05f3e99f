package record

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// processLock is a file lock that shows that a process is running: the system releases it
// however the process ends. The locked file lies beside the log, since on Windows a lock on the
// log itself would keep readers out. On file systems without locks every process counts as ended.
type processLock struct {
	dir, process string
	lock         *flock.Flock // nil before acquire and after release
}

func lockPath(dir, process string) string { return filepath.Join(dir, process+".lock") }

// startGrace is how long a process may take from creating its lock file to holding the lock.
const startGrace = time.Second

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

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
