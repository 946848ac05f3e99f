package secret

import (
	"bytes"
	"regexp"
)

// Armor recognises the lines of a private key in a text that arrives line by line, since the
// other lines do not have the key's header. The zero Armor is outside of a key.
type Armor struct{ left int }

const maxKeyLines = 256 // a key of 16,384 bits has 200

var (
	armorLine = regexp.MustCompile(`-----BEGIN [^-]*PRIVATE KEY[^-]*-----[ \t\r\n"',]*$`)
	// bodyLine is a header, or ends in base64. After other text, such as a log's prefix, a
	// few letters of base64 are not enough.
	bodyLine = regexp.MustCompile(`^\s*(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):.*|[A-Za-z0-9+/=]*|.*(?:[^A-Za-z0-9+/=]|^)(?:[A-Za-z0-9+/=]{16,}|[A-Za-z0-9+/]+=+))["',]*\s*$`)
)

// Body reports whether a line belongs to a private key that began on an earlier line. It must
// be called with every line.
func (a *Armor) Body(line []byte) bool {
	if bytes.Contains(line, []byte(armorBegin)) {
		a.left = 0
		if armorLine.Match(line) {
			a.left = maxKeyLines
		}
		return false // Text masks the key's first line
	}
	if a.left == 0 {
		return false
	}
	a.left--
	switch {
	case bytes.Contains(line, []byte(armorEnd)):
		a.left = 0
		return true
	case bodyLine.Match(line):
		return true
	}
	a.left = 0
	return false
}
