package tune

import "github.com/rogpeppe/go-internal/diff"

// Diff is what changes in a file, in the unified format; nil: nothing does.
func Diff(name string, before, after []byte) []byte {
	return diff.Diff(name, before, name+" (with what tune proposes)", after)
}
