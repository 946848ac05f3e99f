package nearest

// Edits is how many letters two names differ in.
func Edits(a, b string) int { return edits(a, b) }
