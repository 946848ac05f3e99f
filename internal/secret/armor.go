package secret

import (
	"bytes"
	"regexp"
)

// Armor tells the lines of a private key when a text comes line by line, so that no
// line is seen with the one that says what it is. The zero Armor is outside of any.
type Armor struct{ left int }

const mostArmored = 256 // lines of a key: one of 16,384 bits has 200

var (
	armorLine = regexp.MustCompile(`-----BEGIN [^-]*PRIVATE KEY[^-]*-----[ \t\r\n"',]*$`)
	// bodyLine is a header, or ends in base64, of which behind another program's words a few
	// letters are not enough.
	bodyLine = regexp.MustCompile(`^\s*(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash):.*|[A-Za-z0-9+/=]*|.*(?:[^A-Za-z0-9+/=]|^)(?:[A-Za-z0-9+/=]{16,}|[A-Za-z0-9+/]+=+))["',]*\s*$`)
)

// Body reports whether a line belongs to a private key that began on an earlier one.
// It must be given every line.
func (a *Armor) Body(line []byte) bool {
	if bytes.Contains(line, []byte(armorBegin)) {
		a.left = 0
		if armorLine.Match(line) {
			a.left = mostArmored
		}
		return false // Text knows it
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
