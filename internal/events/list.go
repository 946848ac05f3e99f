package events

import (
	"maps"
	"slices"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// maxElements is how many elements of a list are read: no line that was written here
// has as many, and one of a megabyte would take a hundred.
const maxElements = 1024

// texts is an array of strings.
func texts[T any](name string, at func(*T) *[]string) member[T] {
	return list(name, at, func(dst []byte, s *string) []byte {
		return jsonrpc.AppendString(dst, *s)
	}, func(w *words, value []byte, s *string) (ok bool) {
		*s, ok = w.text(value)
		return ok
	}, "an array of strings")
}

// objects is an array of what a table describes.
func objects[T, E any](name string, of *table[E], at func(*T) *[]E) member[T] {
	return list(name, at, of.appendTo, func(w *words, value []byte, e *E) bool {
		return value[0] == '{' && of.parse(w, value, e) == nil
	}, "an array of objects")
}

// list is an array, of elements that are written and read as told.
func list[T, E any](name string, at func(*T) *[]E, appendOne func([]byte, *E) []byte,
	parseOne func(*words, []byte, *E) bool, want string) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		all := *at(t)
		if len(all) == 0 {
			return dst
		}
		dst = append(append(dst, key...), '[')
		for i := range all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendOne(dst, &all[i])
		}
		return append(dst, ']')
	}, func(w *words, t *T, value []byte) bool {
		*at(t) = nil
		for v := range jsonrpc.Elements(value) {
			if len(*at(t)) == maxElements {
				break
			}
			var e E
			if !parseOne(w, v, &e) {
				return false
			}
			*at(t) = append(*at(t), e)
		}
		return value[0] == '['
	}, want}
}

// object is one of what a table describes; nil is none.
func object[T, E any](name string, of *table[E], at func(*T) **E) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		if *at(t) == nil {
			return dst
		}
		return of.appendTo(append(dst, key...), *at(t))
	}, func(w *words, t *T, value []byte) bool {
		*at(t) = new(E)
		return value[0] == '{' && of.parse(w, value, *at(t)) == nil
	}, "an object"}
}

// counts is an object of whole numbers, written in the order of their names.
func counts[T any](name string, at func(*T) *map[string]int) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		all := *at(t)
		if len(all) == 0 {
			return dst
		}
		dst = append(append(dst, key...), '{')
		for i, name := range slices.Sorted(maps.Keys(all)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendString(dst, name), ':')
			dst = strconv.AppendInt(dst, int64(all[name]), 10)
		}
		return append(dst, '}')
	}, func(_ *words, t *T, value []byte) bool {
		all := map[string]int{}
		for m := range jsonrpc.Members(value) {
			if len(all) == maxElements {
				break
			}
			n, ok := parseWhole(m.Value)
			if !ok {
				return false
			}
			all[string(m.Name)] = int(n)
		}
		if *at(t) = nil; len(all) > 0 {
			*at(t) = all
		}
		return value[0] == '{'
	}, "an object of whole numbers"}
}

// written is an object that stays as it was written.
func written[T any](name string, at func(*T) *string) member[T] {
	return member[T]{name, func(dst []byte, key string, t *T) []byte {
		v := *at(t)
		if v == "" || v[0] != '{' || !jsonrpc.Valid([]byte(v)) {
			return dst
		}
		dst = append(dst, key...)
		start := len(dst)
		dst = append(dst, v...)
		jsonrpc.Flatten(dst[start:])
		return dst
	}, func(_ *words, t *T, value []byte) bool {
		*at(t) = string(value)
		return value[0] == '{'
	}, "an object"}
}
