package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockWait is how long to wait for the lock of a file. A process holds it only while it reads
// and writes one file; a process that is stopped meanwhile must not block all others.
const lockWait = 2 * time.Second

// Update replaces a file with what next returns for its content (nil if it does not exist), one
// process at a time. If next returns an error or the same content, nothing is written. If the lock is not
// acquired within two seconds, Update returns an error and does not call next.
func (d Dir) Update(name string, next func(old []byte) ([]byte, error)) error {
	if !d.onlyRead {
		unlock, err := lock(d.Path(name))
		if err != nil {
			return err
		}
		defer unlock()
	}
	old, err := d.Read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := next(old)
	if err != nil || bytes.Equal(data, old) {
		return err
	}
	return d.Write(name, data)
}

// lock takes the lock of a file, and creates its folder.
func lock(path string) (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	l := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s.lock: another process holds it: %w", path, err)
	} else if err != nil {
		return nil, fmt.Errorf("%s.lock: %w", path, err)
	}
	return l.Close, nil // Close keeps the file, which waiting processes have open
}
