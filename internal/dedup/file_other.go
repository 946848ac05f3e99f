//go:build !linux && !darwin

package dedup

// stat always returns false: without an inode and a change time, a replaced file may look
// like the old one.
func stat(string) (fileState, bool) { return fileState{}, false }
