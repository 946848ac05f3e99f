package secret

import (
	"bytes"
	"strings"
)

// Armor tells the lines of a private key when a text comes line by line, so that no
// line is seen with the one that says what it is. The zero Armor is outside of any.
type Armor struct{ left int }

const (
	mostArmored = 256 // lines of a key: one of 16,384 bits has 200
	leastBody   = 16  // characters of base64 at the end of a line that belongs to a key
)

// Body reports whether a line belongs to a private key that began on an earlier one.
// It must be given every line.
func (a *Armor) Body(line []byte) bool {
	if _, after, ok := bytes.Cut(line, []byte(armorBegin)); ok {
		kind, rest, closed := bytes.Cut(after, []byte("-----"))
		a.left = 0
		if closed && bytes.Contains(kind, []byte("PRIVATE KEY")) && len(bytes.Trim(rest, " \t\r\n\"'")) == 0 {
			a.left = mostArmored
		}
		return false // Text knows it
	}
	if a.left == 0 {
		return false
	}
	a.left--
	words := bytes.Fields(line)
	if len(words) == 0 {
		return true
	}
	if bytes.Contains(line, []byte(armorEnd)) {
		a.left = 0
		return true
	}
	last := bytes.TrimRight(words[len(words)-1], `"',`)
	name, _, named := strings.Cut(string(words[0]), ":")
	if named && strings.Contains("|Proc-Type|DEK-Info|Version|Comment|Charset|Hash|", "|"+name+"|") {
		return true
	}
	if in := body(last); in >= leastBody || in == len(last) && (len(words) == 1 || in > 0 && last[in-1] == '=') {
		return true
	}
	a.left = 0
	return false
}

// body is how many characters of base64 stand at the end of a word.
func body(word []byte) int {
	n := 0
	for _, c := range word {
		if alphabetsOf(c)&radix64 != 0 || c == '=' {
			n++
		} else {
			n = 0
		}
	}
	return n
}
