package config

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/nearest"
)

// The functions of this file bind decoded TOML tables to structs whose tags are the schema, and
// report values that do not fit. The decoder could fill structs itself, but it stops at the first
// value of a wrong type and ignores the case of keys.

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
		text, ok := f.Tag.Lookup("default")
		var value any = text
		switch {
		case field.Kind() == reflect.Struct:
			setDefaults(field)
			continue
		case !ok:
			continue
		case field.Kind() == reflect.Bool:
			value = text == "true"
		case field.Kind() == reflect.Int:
			value, _ = strconv.ParseInt(text, 10, 64) // a test parses every tag
		case field.Kind() == reflect.Float64:
			value, _ = strconv.ParseFloat(text, 64)
		}
		new(findings).bind("", value, field, "")
	}
}

// table binds the keys of the table at key.
func (f *findings) table(key string, tree map[string]any, dst reflect.Value) {
	known := fields(dst.Type())
	for name, v := range tree {
		if field, ok := known[name]; ok {
			f.bind(join(key, name), v, dst.FieldByIndex(field.Index), field.Tag)
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		if like := nearest.New(names).To(name); like != "" {
			f.problem(join(key, name), "unknown key, did you mean %q?", like)
		} else {
			f.problem(join(key, name), "unknown key; known here: %s", strings.Join(names, ", "))
		}
	}
}

// bind binds one value, checks it against the tag, and reports whether it fits.
func (f *findings) bind(key string, v any, dst reflect.Value, tag reflect.StructTag) bool {
	before := len(f.problems)
	if text, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		s, isText := v.(string)
		if err := text.UnmarshalText([]byte(s)); err != nil || !isText { // if v is not a string, s is "", which is an error too
			f.problem(key, "%v, have %s", err, show(v))
		}
	} else if dst.Kind() == reflect.Pointer {
		target := reflect.New(dst.Type().Elem())
		if f.bind(key, v, target.Elem(), tag) {
			dst.Set(target)
		}
		return len(f.problems) == before
	} else if !f.set(key, v, dst, tag) {
		want := wanted(dst.Type(), tag)
		if dst.Kind() != reflect.String || tag.Get("enum") != "" { // else it may be a secret written without quotes
			want += ", have " + show(v)
		}
		f.problem(key, "want %s", want)
	}
	if len(f.problems) == before {
		f.bounds(key, dst, tag)
	}
	return len(f.problems) == before
}

// set sets dst to v if v is of the right type, and reports whether it is. It reports problems inside
// v itself.
func (f *findings) set(key string, v any, dst reflect.Value, tag reflect.StructTag) bool {
	switch dst.Kind() {
	case reflect.Float64:
		if i, whole := v.(int64); whole {
			v = float64(i)
		}
		number, ok := v.(float64)
		return ok && !math.IsNaN(number) && !math.IsInf(number, 0) && assign(dst, v)
	case reflect.Int:
		i, ok := v.(int64)
		return ok && assign(dst, int(i))
	case reflect.String:
		s, ok := v.(string)
		return ok && !strings.ContainsRune(s, 0) && assign(dst, v)
	case reflect.Interface:
		_, err := json.Marshal(v)
		return err == nil && assign(dst, v)
	case reflect.Struct:
		if short, ok := shortField(dst.Type()); ok {
			if _, isText := v.(string); isText {
				return f.set(key, v, dst.FieldByIndex(short.Index), "")
			}
		}
		tree, ok := v.(map[string]any)
		f.table(key, tree, dst)
		return ok
	case reflect.Map:
		tree, ok := v.(map[string]any)
		dst.Set(reflect.MakeMap(dst.Type()))
		for name, item := range tree {
			f.form(join(key, name), tag.Get("keys"), name)
			target := reflect.New(dst.Type().Elem()).Elem()
			if f.bind(join(key, name), item, target, tag) {
				dst.SetMapIndex(reflect.ValueOf(name), target)
			}
		}
		return ok
	case reflect.Slice:
		if named, ok := nameOf(dst.Type()); ok {
			tree, ok := v.(map[string]any)
			f.named(key, tree, dst, named)
			return ok
		}
		items, ok := v.([]any)
		dst.Set(reflect.MakeSlice(dst.Type(), len(items), len(items)))
		for i, item := range items {
			f.bind(element(key, i), item, dst.Index(i), tag)
		}
		return ok
	}
	return assign(dst, v)
}

// assign sets dst to v if it can hold it.
func assign(dst reflect.Value, v any) bool {
	fits := reflect.TypeOf(v).AssignableTo(dst.Type())
	if fits {
		dst.Set(reflect.ValueOf(v))
	}
	return fits
}

// shortField returns the field with the tag short: a string may stand for a table with only this
// field.
func shortField(t reflect.Type) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if _, short := f.Tag.Lookup("short"); short {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// nameOf returns the field Name of a slice's elements, if they have one. The file then has a table of
// tables instead of an array.
func nameOf(slice reflect.Type) (reflect.StructField, bool) {
	if slice.Elem().Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	return slice.Elem().FieldByName("Name")
}

// named appends the blocks of a table of tables to dst, in the order of the file.
func (f *findings) named(key string, tree map[string]any, dst reflect.Value, nameField reflect.StructField) {
	line := func(name string) int { return f.pos.line(join(key, name)) }
	names := slices.SortedFunc(maps.Keys(tree), func(x, y string) int {
		return cmp.Or(cmp.Compare(line(x), line(y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		f.form(join(key, name), nameField.Tag.Get("form"), name)
		item := reflect.New(dst.Type().Elem()).Elem()
		setDefaults(item)
		item.FieldByIndex(nameField.Index).SetString(name)
		f.bind(join(key, name), tree[name], item, "")
		dst.Set(reflect.Append(dst, item))
	}
}

// bounds checks a bound value against its form, enum, min and max tags. "" means that a key is not
// set, but not in an array.
func (f *findings) bounds(key string, dst reflect.Value, tag reflect.StructTag) {
	if enum, closed := tag.Lookup("enum"); closed {
		if s := dst.String(); !slices.Contains(strings.Split(enum, "|"), s) {
			f.problem(key, "want %s, have %q", wanted(dst.Type(), tag), s)
		}
		return
	}
	if dst.Kind() == reflect.String && (dst.String() != "" || strings.HasSuffix(key, "]")) {
		f.form(key, tag.Get("form"), dst.String())
	}
	var n float64
	switch {
	case dst.CanInt():
		n = float64(dst.Int())
	case dst.CanFloat():
		n = dst.Float()
	default:
		return
	}
	low, high := tag.Get("min"), tag.Get("max")
	lowest, _ := strconv.ParseFloat(low, 64)
	if highest, err := strconv.ParseFloat(high, 64); err == nil && (n < lowest || n > highest) {
		f.problem(key, "want %s to %s, have %v", low, high, dst.Interface())
	} else if low != "" && n < lowest {
		if _, size := dst.Interface().(Bytes); size {
			low = Bytes(lowest).String()
		}
		f.problem(key, "want at least %s, have %v", low, dst.Interface())
	}
}

// form checks a string against a form, if the form is not "".
func (f *findings) form(key, form, s string) {
	if rule, ok := forms()[form]; ok && !rule.ok(s) {
		f.problem(key, "want %s, have %q", rule.want, s)
	}
}

// wanted describes the values that a field takes. It omits the choice "", which means that the key
// is not set.
func wanted(t reflect.Type, tag reflect.StructTag) string {
	if enum := strings.TrimPrefix(tag.Get("enum"), "|"); enum != "" {
		return `"` + strings.ReplaceAll(enum, "|", `" or "`) + `"`
	}
	if t.Kind() == reflect.Slice {
		if _, named := nameOf(t); named {
			return "a table"
		}
	}
	if t.Kind() == reflect.Struct {
		if _, ok := shortField(t); ok {
			return "a string or a table"
		}
	}
	return map[reflect.Kind]string{
		reflect.String: "a quoted string without NUL characters", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number",
		reflect.Slice: "a list", reflect.Interface: "a value that JSON can represent", reflect.Struct: "a table", reflect.Map: "a table",
	}[t.Kind()]
}

// show returns a value as messages show it.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v[:min(len(v), 40)])
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}
