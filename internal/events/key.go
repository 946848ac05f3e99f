package events

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const keyBytes = 32

// Key returns the installation's key, 32 random bytes in the file key of the folder
// (0600), which is made if it is missing. Processes that want it at once get the same.
func Key(dir string) ([]byte, error) {
	path := filepath.Join(dir, "key")
	if key, err := readKey(path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil && !lockless(err) {
		return nil, fmt.Errorf("%s.lock: %w", path, err)
	}
	defer lock.Close() // the file stays: who waits for it has it open
	if key, err := readKey(path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(path); err != nil {
		return nil, err
	}
	return readKey(path) // where there are no locks, another process may have made one too
}

// readKey returns the key; one of another length was not made here, and to replace it
// would make strangers of all hashes so far.
func readKey(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: want a file with a key", path) // to read a pipe may have no end
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) != keyBytes {
		return nil, fmt.Errorf("%s: want a key of %d bytes, have %d; without the file a new one is made", path, keyBytes, len(key))
	}
	return key, err
}

func makeKey(path string) error {
	key := make([]byte, keyBytes)
	rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(path), "key.*.tmp") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(key)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says it all
	}
	return err
}
