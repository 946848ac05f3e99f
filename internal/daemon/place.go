package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Place identifies the daemon of one user and one configuration.
type Place struct {
	Socket string // path of the socket, in a folder that only its user may open

	stateDir string
	lock     string // path of the lock that the daemon holds
	starting string // path of the lock that a client holds while it starts the daemon
}

// NewPlace returns the place for a state folder and a configuration file, empty for the built-in
// defaults. It creates missing folders.
func NewPlace(stateDir, config string) (Place, error) {
	p := placeOf(stateDir, config)
	err := makePrivate(filepath.Dir(p.lock))
	if err == nil && runtime.GOOS != "windows" { // a named pipe has no folder
		err = makePrivate(filepath.Dir(p.Socket))
	}
	return p, err
}

// Find returns the place if a daemon listens there. It creates nothing.
func Find(stateDir, config string) (p Place, runs bool) {
	p = placeOf(stateDir, config)
	conn, err := dial(p)
	if err != nil {
		return Place{}, false
	}
	conn.Close()
	return p, true
}

// Stop ends the daemon that listens there, as SIGTERM would. It returns before the daemon has ended.
func (p Place) Stop() error { return p.tell(Hello{Kind: kindStop}, DefaultWait) }

func placeOf(stateDir, config string) Place {
	name := filepath.Join(stateDir, "daemon", fmt.Sprintf("%s-%d", hashOf(config), Protocol))
	return Place{Socket: socketOf(stateDir, config), stateDir: stateDir, lock: name + ".lock", starting: name + ".start"}
}

// output returns the log of what daemons that clients started print.
func (p Place) output() *LogFile { return OpenLog(p.stateDir, OutputLog) }

// hashOf returns the first 64 bits of a hash of texts in hexadecimal.
func hashOf(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// makePrivate creates a folder that only this user may open, or restricts the permissions of an
// existing folder of this user.
func makePrivate(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("folder of the socket: %w", err)
	}
	info, err := os.Lstat(folder)
	switch {
	case err != nil:
		return fmt.Errorf("folder of the socket: %w", err)
	case !info.IsDir():
		return fmt.Errorf("folder of the socket: %s is not a directory", folder)
	case !ownedByUs(info):
		return fmt.Errorf("folder of the socket: %s belongs to another user", folder)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(folder, 0o700)
	}
	return nil
}
