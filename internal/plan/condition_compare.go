package plan

import (
	"bytes"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// something says whether a value is neither null nor false, nor zero or empty.
func something(value []byte) bool {
	switch value[0] {
	case 'n', 'f':
		return false
	case '"':
		return len(value) > 2
	case '{':
		for range jsonrpc.Members(value) {
			return true
		}
		return false
	case '[':
		for range jsonrpc.Elements(value) {
			return true
		}
		return false
	case 't':
		return true
	}
	d, ok := parseDecimal(value)
	return !ok || d.sign() != 0
}

// equal says whether two JSON values are the same. It goes no deeper than the one
// that the plan holds.
func equal(a, b []byte) bool {
	if kindOf(a) != kindOf(b) {
		return false
	}
	switch a[0] {
	case '{':
		return equalObjects(a, b)
	case '[':
		return equalArrays(a, b)
	case '"':
		x, _ := jsonrpc.String(a)
		y, _ := jsonrpc.String(b)
		return x == y
	case 't', 'f', 'n':
		return a[0] == b[0]
	}
	x, ok := parseDecimal(a)
	y, too := parseDecimal(b)
	if !ok || !too {
		return bytes.Equal(a, b)
	}
	return x.compare(y) == 0
}

// equalObjects takes the last of members of the same name, as most readers do.
func equalObjects(a, b []byte) bool {
	left := make(map[string][]byte)
	for m := range jsonrpc.Members(a) {
		left[string(m.Name)] = m.Value
	}
	right := make(map[string][]byte)
	for m := range jsonrpc.Members(b) {
		right[string(m.Name)] = m.Value
	}
	if len(left) != len(right) {
		return false
	}
	for name, v := range left {
		w, ok := right[name]
		if !ok || !equal(v, w) {
			return false
		}
	}
	return true
}

func equalArrays(a, b []byte) bool {
	var right [][]byte
	for e := range jsonrpc.Elements(b) {
		right = append(right, e)
	}
	n := 0
	for e := range jsonrpc.Elements(a) {
		if n == len(right) || !equal(e, right[n]) {
			return false
		}
		n++
	}
	return n == len(right)
}

// order is how a compares with b, two numbers or two texts; wrong says why they
// cannot be compared.
func order(a, b []byte) (sign int, wrong string) {
	switch {
	case kindOf(a) != kindOf(b):
		return 0, kindOf(a) + " cannot be compared with " + kindOf(b)
	case a[0] == '"':
		x, _ := jsonrpc.String(a)
		y, _ := jsonrpc.String(b)
		return strings.Compare(x, y), ""
	case kindOf(a) != "a number":
		return 0, kindOf(a) + " has no order"
	}
	x, ok := parseDecimal(a)
	y, too := parseDecimal(b)
	if !ok || !too {
		return 0, "a number out of all proportion"
	}
	return x.compare(y), ""
}
