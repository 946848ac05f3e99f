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

// lockWait is how long to wait for the lock of a file. A process holds it only while it reads
// and writes one file; a process that is stopped meanwhile must not block all others.
const lockWait = 2 * time.Second

// Update replaces a file with what next returns for its content (nil if it does not exist), one
// process at a time. If next returns an error, the file is unchanged. If the lock is not
// acquired within two seconds, Update returns an error and does not call next.
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
	defer lock.Close() // keeps the file, which waiting processes have open
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
