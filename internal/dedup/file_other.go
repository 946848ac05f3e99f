//go:build !linux && !darwin

package dedup

// stat is never enough here: without an inode and the time of the last change
// of any kind, a file that was replaced may look like the old one.
func stat(string) (fileState, bool) { return fileState{}, false }
