package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockWait is how long another process may take to update a file. Each holds the
// lock no longer than it takes to read and write one file; one that was stopped
// meanwhile must not hold up all others.
const lockWait = 2 * time.Second

// Update replaces a file by what next makes of it (nil where there is none), one
// process at a time. An error of next leaves the file as it is. A lock that is not
// to be had within two seconds is an error too, before next is called.
func (d Dir) Update(name string, next func(old []byte) ([]byte, error)) error {
	path := d.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s.lock: another process holds it: %w", path, err)
	} else if err != nil {
		return fmt.Errorf("%s.lock: %w", path, err)
	}
	defer lock.Close() // the file stays: a process that waits for it has it open
	old, err := d.Read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := next(old)
	if err != nil {
		return err
	}
	return d.Write(name, data)
}
