//go:build !unix

package state

import (
	"io/fs"
	"os"
)

func otherOwner(fs.FileInfo) string { return "" }

func keepOwner(*os.File, fs.FileInfo) error { return nil }
