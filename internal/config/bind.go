package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/nearest"
)

// binder binds decoded TOML tables to structs whose tags are the schema, and reports values that
// do not fit. The decoder could fill structs itself, but it stops at the first value of a wrong
// type and ignores the case of keys.
type binder struct{ *findings }

// fields returns the fields of a struct type by their toml keys.
func fields(t reflect.Type) map[string]reflect.StructField {
	known := map[string]reflect.StructField{} // key → field
	for field := range t.Fields() {
		if key := field.Tag.Get("toml"); key != "" {
			known[key] = field
		}
	}
	return known
}

// setDefaults sets the fields of a struct to the defaults in their tags, which have the syntax of
// the file without quotes.
func setDefaults(dst reflect.Value) {
	for _, f := range fields(dst.Type()) {
		field := dst.FieldByIndex(f.Index)
		if field.Kind() == reflect.Struct {
			setDefaults(field)
			continue
		}
		text, ok := f.Tag.Lookup("default")
		if !ok {
			continue
		}
		var value any = text
		switch field.Kind() {
		case reflect.Bool:
			value = text == "true"
		case reflect.Int, reflect.Float64:
			value, _ = strconv.ParseFloat(text, 64) // a test parses every tag
			if field.Kind() == reflect.Int {
				value = int64(value.(float64))
			}
		}
		binder{&findings{}}.value("", value, field, "")
	}
}

// table binds the keys of the table at key.
func (b binder) table(key string, tree map[string]any, dst reflect.Value) {
	known := fields(dst.Type())
	for name, v := range tree {
		if f, ok := known[name]; ok {
			b.value(join(key, name), v, dst.FieldByIndex(f.Index), f.Tag)
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		if like := nearest.New(names).To(name); like != "" {
			b.problem(join(key, name), "unknown key, did you mean %q?", like)
		} else {
			b.problem(join(key, name), "unknown key; known here: %s", strings.Join(names, ", "))
		}
	}
}

// value binds one value and reports whether it fits.
func (b binder) value(key string, v any, dst reflect.Value, tag reflect.StructTag) bool {
	before := len(b.problems)
	if text, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		s, isText := v.(string)
		if err := text.UnmarshalText([]byte(s)); err != nil || !isText { // if v is not a string, s is "", which is an error too
			b.problem(key, "%v, have %s", err, show(v))
		}
	} else {
		switch dst.Kind() {
		case reflect.Pointer:
			target := reflect.New(dst.Type().Elem())
			if b.value(key, v, target.Elem(), tag) {
				dst.Set(target)
			}
			return len(b.problems) == before
		case reflect.Struct:
			b.structure(key, v, dst)
		case reflect.Slice:
			b.slice(key, v, dst)
		case reflect.Map:
			b.dictionary(key, v, dst)
		case reflect.Interface:
			if value, ok := b.jsonValue(key, v); ok {
				dst.Set(reflect.ValueOf(value))
			}
		default:
			b.scalar(key, v, dst, tag)
		}
	}
	if len(b.problems) == before {
		b.bounds(key, dst, tag)
	}
	return len(b.problems) == before
}

func (b binder) scalar(key string, v any, dst reflect.Value, tag reflect.StructTag) {
	switch dst.Kind() {
	case reflect.String:
		s, ok := v.(string)
		switch {
		case ok && strings.ContainsRune(s, 0):
			b.problem(key, "want a string without NUL characters")
		case ok:
			dst.SetString(s)
		case choices(tag) != "":
			b.problem(key, "want %s, have %s", choices(tag), show(v))
		default:
			// The value may be a secret written without quotes, so the message omits it.
			b.problem(key, "want a string, have %s", kind(v))
		}
	case reflect.Bool:
		t, ok := v.(bool)
		if !ok {
			b.problem(key, "want true or false, have %s", show(v))
			return
		}
		dst.SetBool(t)
	case reflect.Int:
		i, ok := v.(int64)
		if !ok || dst.OverflowInt(i) {
			b.problem(key, "want a whole number, have %s", show(v))
			return
		}
		dst.SetInt(i)
	case reflect.Float64:
		f, ok := v.(float64)
		if i, whole := v.(int64); whole {
			f, ok = float64(i), true
		}
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
			b.problem(key, "want a number, have %s", show(v))
			return
		}
		dst.SetFloat(f)
	}
}

// structure binds a table to a struct. If a field has the tag short, a string may stand for a
// table with only this field.
func (b binder) structure(key string, v any, dst reflect.Value) {
	if tree, ok := v.(map[string]any); ok {
		b.table(key, tree, dst)
		return
	}
	for f := range dst.Type().Fields() {
		if _, short := f.Tag.Lookup("short"); !short {
			continue
		}
		if _, ok := v.(string); ok {
			b.value(key, v, dst.FieldByIndex(f.Index), f.Tag)
		} else {
			b.problem(key, "want a string or a table, have %s", show(v))
		}
		return
	}
	b.problem(key, "want a table, have %s", show(v))
}

// slice binds an array to a slice. If the elements have a field Name, the file has a table of
// tables instead, whose order is kept.
func (b binder) slice(key string, v any, dst reflect.Value) {
	item := dst.Type().Elem()
	if item.Kind() == reflect.Struct {
		if _, named := item.FieldByName("Name"); named {
			b.named(key, v, dst)
			return
		}
	}
	items, ok := list(v)
	if !ok {
		b.problem(key, "want a list, have %s", show(v))
		return
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(items), len(items)))
	for i, item := range items {
		b.value(element(key, i), item, dst.Index(i), "")
	}
}

// named appends the blocks of a table of tables to dst, in the order of the file.
func (b binder) named(key string, v any, dst reflect.Value) {
	tree, ok := v.(map[string]any)
	if !ok {
		b.problem(key, "want a table, have %s", show(v))
		return
	}
	line := func(name string) int { return b.pos.line(join(key, name)) }
	names := slices.SortedFunc(maps.Keys(tree), func(x, y string) int {
		return cmp.Or(cmp.Compare(line(x), line(y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		item := reflect.New(dst.Type().Elem()).Elem()
		setDefaults(item)
		item.FieldByName("Name").SetString(name)
		if at := item.FieldByName("Line"); at.IsValid() {
			at.SetInt(int64(line(name)))
		}
		b.structure(join(key, name), tree[name], item)
		dst.Set(reflect.Append(dst, item))
	}
}

// dictionary binds a table with arbitrary keys to a map.
func (b binder) dictionary(key string, v any, dst reflect.Value) {
	tree, ok := v.(map[string]any)
	if !ok {
		b.problem(key, "want a table, have %s", show(v))
		return
	}
	dst.Set(reflect.MakeMapWithSize(dst.Type(), len(tree)))
	for name, item := range tree {
		target := reflect.New(dst.Type().Elem()).Elem()
		if b.value(join(key, name), item, target, "") {
			dst.SetMapIndex(reflect.ValueOf(name).Convert(dst.Type().Key()), target)
		}
	}
}

// jsonValue converts a value of any type to one that encoding/json can encode.
func (b binder) jsonValue(key string, v any) (any, bool) {
	switch v := v.(type) {
	case bool, int64, string:
		return v, true
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, true
		}
	case map[string]any:
		out, fits := make(map[string]any, len(v)), true
		for name, item := range v {
			p, ok := b.jsonValue(join(key, name), item)
			out[name], fits = p, fits && ok
		}
		return out, fits
	case []any, []map[string]any:
		items, _ := list(v)
		out, fits := make([]any, len(items)), true
		for i, item := range items {
			p, ok := b.jsonValue(element(key, i), item)
			out[i], fits = p, fits && ok
		}
		return out, fits
	}
	b.problem(key, "want a value that JSON can represent, have %s", show(v))
	return nil, false
}

// list returns the elements of an array. The decoder gives [[x]] blocks another type than
// x = [...].
func list(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []map[string]any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = v[i]
		}
		return items, true
	}
	return nil, false
}

// bounds checks a bound value against its enum, min and max tags.
func (b binder) bounds(key string, dst reflect.Value, tag reflect.StructTag) {
	if enum, closed := tag.Lookup("enum"); closed {
		if s := dst.String(); !slices.Contains(strings.Split(enum, "|"), s) {
			b.problem(key, "want %s, have %q", choices(tag), s)
		}
		return
	}
	low, high := tag.Get("min"), tag.Get("max")
	var n float64
	switch {
	case low == "" && high == "":
		return
	case dst.CanInt():
		n = float64(dst.Int())
	case dst.CanFloat():
		n = dst.Float()
	}
	lowest, _ := strconv.ParseFloat(low, 64)
	if highest, err := strconv.ParseFloat(high, 64); err == nil && (n < lowest || n > highest) {
		b.problem(key, "want %s to %s, have %v", low, high, dst.Interface())
	} else if n < lowest {
		if _, size := dst.Interface().(Bytes); size {
			low = Bytes(lowest).String()
		}
		b.problem(key, "want at least %s, have %v", low, dst.Interface())
	}
}

// choices lists the values of an enum tag for a message. It omits "", which means that the key is
// not set.
func choices(tag reflect.StructTag) string {
	var quoted []string
	for c := range strings.SplitSeq(tag.Get("enum"), "|") {
		if c != "" {
			quoted = append(quoted, strconv.Quote(c))
		}
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// show returns a value as messages show it: numbers and strings up to 40 bytes as written, other
// values by their kind.
func show(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) <= 40 {
			return strconv.Quote(v)
		}
	case int64, float64:
		return fmt.Sprint(v)
	}
	return kind(v)
}

func kind(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool:
		return fmt.Sprint(v)
	case int64, float64:
		return "a number"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "a list"
	default:
		return "a date or time"
	}
}
