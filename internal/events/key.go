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

// Key returns the installation's key, 32 random bytes in the file path (0600), which
// is made if it is missing. Processes that want it at once get the same. It does not
// belong beside the logs, which people send with a report of a fault: with it, hashes
// can be tried. Earlier versions had it there, in the file was ("": nowhere), which is
// moved; one that is started later makes another there, which is removed, so that its
// hashes are continued by none. A key beside an error is good, but still in was too.
func Key(path, was string) ([]byte, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = ownKey(path, was)
	}
	if was == "" {
		return key, err
	}
	if err != nil {
		old, _ := readKey(was) // nil if that is not to be had either
		return old, err
	}
	if err := os.Remove(was); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return key, fmt.Errorf("it is still beside the logs: %w", err)
	}
	return key, nil
}

// ownKey makes the key, of what is in was if that is there.
func ownKey(path, was string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	lock := flock.New(path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil && !lockless(err) {
		return nil, fmt.Errorf("%s.lock: %w", path, err)
	}
	defer lock.Close() // the file stays: who waits for it has it open
	var key []byte
	var old error = fs.ErrNotExist
	if was != "" {
		key, old = readKey(was)
	}
	// After was: if that has just been moved, it is here.
	if key, err := readKey(path); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if errors.Is(old, fs.ErrNotExist) {
		key = make([]byte, keyBytes)
		rand.Read(key)
	} else if old != nil {
		return nil, old
	}
	if err := writeKey(path, key); err != nil {
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

func writeKey(path string, key []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // 0600
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
