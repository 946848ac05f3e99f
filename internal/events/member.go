package events

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// member is how one field of a T is written and read. There is one table of them
// for each type, so that what is written can be read.
type member[T any] struct {
	name   string
	append func(dst []byte, key string, t *T) []byte // key: `"name":`; dst as it was if the field is zero
	parse  func(w *words, t *T, value []byte) bool   // false: it is of another type
	want   string                                    // that type
}

// table is the members of a type in the order in which they are written, each
// behind its key.
type table[T any] struct {
	members []member[T]
	keys    []string
}

func newTable[T any](members ...member[T]) *table[T] {
	t := &table[T]{members: members}
	for _, m := range members {
		t.keys = append(t.keys, `"`+m.name+`":`)
	}
	return t
}

// appendTo appends v as an object.
func (t *table[T]) appendTo(dst []byte, v *T) []byte {
	dst = append(dst, '{')
	for i := range t.members {
		before := len(dst)
		if dst = t.members[i].append(dst, t.keys[i], v); len(dst) > before {
			dst = append(dst, ',')
		}
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

// parse reads the members of obj, which is valid JSON, into v. Those that the table
// does not have are left out: a later program wrote them.
func (t *table[T]) parse(w *words, obj []byte, v *T) error {
	next := 0 // they were written in the table's order: that is where the next one is
	for m := range jsonrpc.Members(obj) {
		i := t.find(m.Name, next)
		if i < 0 || string(m.Value) == "null" {
			continue
		}
		next = i + 1
		if !t.members[i].parse(w, v, m.Value) {
			return fmt.Errorf("%s: want %s, have %s", m.Name, t.members[i].want, shown(fmt.Sprintf("%.40s", m.Value)))
		}
	}
	return nil
}

// find looks a name up from a place on, and around; -1 if it is not there.
func (t *table[T]) find(name []byte, from int) int {
	for i := from; i < len(t.members); i++ {
		if t.members[i].name == string(name) {
			return i
		}
	}
	for i := range t.members[:from] {
		if t.members[i].name == string(name) {
			return i
		}
	}
	return -1
}

// must makes a member that is written even when it is zero; zero is how that looks.
func must[T any](m member[T], zero string) member[T] {
	appendSet := m.append
	m.append = func(dst []byte, key string, t *T) []byte {
		before := len(dst)
		if dst = appendSet(dst, key, t); len(dst) > before {
			return dst
		}
		return append(append(dst, key...), zero...)
	}
	return m
}

// text is a string of which many lines hold the same.
func text[T any](name string, at func(*T) *string) member[T] {
	m := unique(name, at)
	m.parse = func(w *words, t *T, value []byte) (ok bool) {
		*at(t), ok = w.text(value)
		return ok
	}
	return m
}

// unique is a string that hardly any other line holds.
func unique[T any](name string, at func(*T) *string) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		if *at(t) == "" {
			return dst
		}
		return jsonrpc.AppendString(append(dst, key...), *at(t))
	}, func(_ *words, t *T, value []byte) (ok bool) {
		*at(t), ok = jsonrpc.String(value)
		return ok
	}, "a string"}
}

func whole[T any](name string, at func(*T) *int) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		return appendWhole(dst, key, int64(*at(t)))
	}, func(_ *words, t *T, value []byte) bool {
		n, ok := parseWhole(value)
		*at(t) = int(n)
		return ok && int64(int(n)) == n
	}, "a whole number"}
}

func count[T any](name string, at func(*T) *int64) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		return appendWhole(dst, key, *at(t))
	}, func(_ *words, t *T, value []byte) (ok bool) {
		*at(t), ok = parseWhole(value)
		return ok
	}, "a whole number"}
}

func number[T any](name string, at func(*T) *float64) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		f := *at(t)
		if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) { // JSON has no word for the last two
			return dst
		}
		return appendNumber(append(dst, key...), f)
	}, func(_ *words, t *T, value []byte) bool {
		f, err := strconv.ParseFloat(string(value), 64)
		*at(t) = f
		return err == nil && value[0] != '"'
	}, "a number"}
}

func flag[T any](name string, at func(*T) *bool) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		if !*at(t) {
			return dst
		}
		return append(append(dst, key...), "true"...)
	}, func(_ *words, t *T, value []byte) bool {
		*at(t) = string(value) == "true"
		return *at(t) || string(value) == "false"
	}, "true or false"}
}

// The times that can be written in other ways too: no more than four digits of a year.
const firstMoment, lastMoment = -62135596800_000_000, 253402300799_999_999

// moment is a time in microseconds since 1970; one that is beyond the years 1 to 9999
// is read as the first or the last of them.
func moment[T any](name string, at func(*T) *time.Time) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		if at(t).IsZero() {
			return dst
		}
		return strconv.AppendInt(append(dst, key...), at(t).UnixMicro(), 10)
	}, func(_ *words, t *T, value []byte) bool {
		n, ok := parseWhole(value)
		*at(t) = time.UnixMicro(min(max(n, firstMoment), lastMoment)).UTC()
		return ok
	}, "microseconds since 1970"}
}

func appendWhole(dst []byte, key string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), n, 10)
}

// appendNumber writes very large and very small numbers as encoding/json does.
func appendNumber(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs < 1e-6 || abs >= 1e21 {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

// parseWhole reads a whole number, be it written as 1.0 or 1e6: other programs that
// pass lines on do that.
func parseWhole(value []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
