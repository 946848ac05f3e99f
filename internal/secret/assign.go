package secret

import (
	"slices"
	"strings"
)

// assigner finds the secrets of a text that are called so: name=value, "name":
// "value", --name value, <name>value</name>. It goes from right to left, so that
// an assignment within the value of another is decided on first, and takes what is
// found already for something that it cannot look into: it decides on a text with
// marks as it did on the one with the secrets.
type assigner struct {
	s     string
	left  []span // with shapes, that it has not come to yet
	right []span // that it has come to and found, the nearest last

	words, lines, tags run // parts without an end of a value, of a header, of an element
}

// named adds the secrets that are called so to those that have a shape.
func named(s string, spans []span) []span {
	a := assigner{s: s, left: spans}
	for i := len(s) - 1; i >= 0; i-- {
		if n := len(a.left); n > 0 && i < a.left[n-1].to {
			a.right = append(a.right, a.left[n-1])
			i = a.left[n-1].from
			a.left = a.left[:n-1]
			continue
		}
		switch s[i] {
		case '=', ':', '>', ' ':
			a.assignment(i)
		case '-':
			a.attached(i)
		}
	}
	slices.Reverse(a.right)
	return a.right
}

// assignment takes the value of the assignment whose sign stands at i, if it is a
// secret.
func (a *assigner) assignment(i int) {
	k := a.name(i)
	if k == plain {
		return
	}
	v := a.value(i, k)
	if v.from == v.to || !a.secret(v, k, i) {
		return
	}
	if k == userPassword {
		v.from += strings.IndexByte(a.s[v.from:v.to], ':') + 1
	}
	a.take(v, k)
}

// take adds a value of kind k.
func (a *assigner) take(v value, k kind) {
	n := len(a.right)
	for n > 0 && a.right[n-1].from < v.end {
		n-- // it is part of the value
	}
	a.right = append(a.right[:n], span{v.from, v.end, kinds[k].rule})
}

// name classifies the name before the sign at i.
func (a *assigner) name(i int) kind {
	to, floor := i, 0
	if n := len(a.left); n > 0 {
		floor = a.left[n-1].to
	}
	if a.s[i] != '>' && a.s[i] != ' ' {
		for to > floor && i-to < 6 && strings.IndexByte(" \t\"'`\\])", a.s[to-1]) >= 0 {
			to--
		}
	}
	from := to
	for from > floor && to-from < longestName && nameByte(a.s[from-1]) {
		from--
	}
	if from == to {
		return plain
	}
	before := byte(0)
	if from > 0 {
		before = a.s[from-1]
	}
	if to == i && strings.IndexByte("\"'`", before) >= 0 && i+1 < len(a.s) && a.s[i+1] == before {
		return plain // "PWD=" + x
	}
	switch a.s[i] {
	case '>':
		if before != '<' {
			return plain
		}
	case ' ':
		return a.option(from, to)
	case ':':
		if strings.HasPrefix(a.s[i:], "://") || strings.HasPrefix(a.s[i:], "::") || before == ':' || i > 0 && a.s[i-1] == ':' {
			return plain
		}
	}
	return long(a.s[from:to])
}

func nameByte(c byte) bool {
	return letter(c) || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
