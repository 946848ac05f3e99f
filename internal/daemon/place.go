package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Place is where the daemon of one user and one configuration is found.
type Place struct {
	Socket string // on which it listens, in a folder that only its user may open

	lock     string // held by the daemon for as long as it lives
	starting string // held by the client that starts it
}

// At is the place for a configuration, "" for the built-in defaults, that keeps its state in a
// folder. The folders are made where they are missing.
func NewPlace(stateDir, config string) (Place, error) {
	p := placeOf(stateDir, config)
	for _, path := range []string{p.lock, p.Socket} { // a named pipe is in no folder
		if runtime.GOOS == "windows" && path == p.Socket {
			continue
		}
		if err := makePrivate(filepath.Dir(path)); err != nil {
			return Place{}, err
		}
	}
	return p, nil
}

// Find is the place if a daemon listens there. It makes nothing.
func Find(stateDir, config string) (p Place, runs bool) {
	p = placeOf(stateDir, config)
	conn, err := dial(p)
	if err != nil {
		return Place{}, false
	}
	conn.Close()
	return p, true
}

func placeOf(stateDir, config string) Place {
	name := filepath.Join(stateDir, "daemon", fmt.Sprintf("%s-%d", hashOf(config), Protocol))
	return Place{Socket: socketOf(stateDir, config), lock: name + ".lock", starting: name + ".start"}
}

// hashed names what a list of texts is about.
func hashOf(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// makePrivate makes a folder that only this user may open, or makes one so that is this user's.
func makePrivate(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("folder of the socket: %w", err)
	}
	info, err := os.Lstat(folder)
	switch {
	case err != nil:
		return fmt.Errorf("folder of the socket: %w", err)
	case !info.IsDir():
		return fmt.Errorf("folder of the socket: %s is no folder", folder)
	case !ownedByUs(info):
		return fmt.Errorf("folder of the socket: %s belongs to another user", folder)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(folder, 0o700)
	}
	return nil
}
