package plan

// Nearest is the one of all names that was meant most likely.
func Nearest(name string, all ...string) string { return newNames(all).nearest(name) }

// Edits is how many letters two names differ in.
func Edits(a, b string, most int) int { return edits(a, b, most) }
