//go:build !unix

package daemon

import (
	"os"
	"os/exec"
)

// Supported says whether there can be a daemon on this system. Windows wants a named pipe with
// an access list, which is not written yet.
const Supported = false

func ownedByUs(os.FileInfo) bool { return true }

func detach(*exec.Cmd) {}
