//go:build !unix

package state

import (
	"io/fs"
	"os"
)

func ofAnother(fs.FileInfo) bool { return false }

func keepOwner(*os.File, fs.FileInfo) error { return nil }
