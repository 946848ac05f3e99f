package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/nearest"
)

// The functions of this file bind decoded TOML tables to structs with tags that are the schema, and
// report values that do not fit. The decoder could fill structs itself, but it stops at the first
// value of a wrong type and ignores the case of keys.

// fields returns the fields of a struct type, and of the structs embedded in it, by their toml keys.
func fields(t reflect.Type) map[string]reflect.StructField {
	known := map[string]reflect.StructField{} // key → field
	for _, field := range reflect.VisibleFields(t) {
		if key := field.Tag.Get("toml"); key != "" && key != "-" {
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
		if field.Kind() == reflect.Struct {
			setDefaults(field)
		}
		if !ok {
			continue
		}
		var value any = text
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			value = whole
		} else if number, err := strconv.ParseFloat(text, 64); err == nil {
			value = number
		} else if truth, err := strconv.ParseBool(text); err == nil {
			value = truth
		}
		new(findings).bind("", value, field, f.Tag) // a test checks the default of every tag
	}
}

// bindTable binds the keys of the table at key.
func (f *findings) bindTable(key string, tree map[string]any, dst reflect.Value) {
	known := fields(dst.Type())
	for name, v := range tree {
		if field, ok := known[name]; ok {
			f.bind(join(key, name), v, dst.FieldByIndex(field.Index), field.Tag)
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		var tables []string // that have such a key
		for _, table := range names {
			if t := known[table].Type; t.Kind() == reflect.Struct {
				if _, ok := fields(t)[name]; ok {
					tables = append(tables, "["+join(key, table)+"]")
				}
			}
		}
		hint := "; it belongs in " + strings.Join(tables, " or ")
		if tables == nil {
			hint = cmp.Or(nearest.Question(name, names), "; known here: "+strings.Join(names, ", "))
		}
		f.problem(join(key, name), "unknown key%s", hint)
	}
}

// bind binds one value, checks it against the tag, and reports whether it fits. A value that does not fit leaves
// the default in dst, which may be used despite the problem: see [Error.Salvage]. In a table or a list of tables
// each value does so by itself. A literal path stays, since paths.ConfiguredStateDir returns it unchecked.
func (f *findings) bind(key string, v any, dst reflect.Value, tag reflect.StructTag) bool {
	before, unset := len(f.problems), reflect.New(dst.Type()).Elem()
	unset.Set(dst)
	if own, ok := reflect.TypeAssert[toml.Unmarshaler](dst.Addr()); ok {
		if err := own.UnmarshalTOML(v); err != nil {
			f.problem(key, "%v", err)
		}
	} else if dst.Kind() == reflect.Pointer {
		target := reflect.New(dst.Type().Elem())
		if f.bind(key, v, target.Elem(), tag) {
			dst.Set(target)
		}
		return len(f.problems) == before
	} else if !f.set(key, v, dst, tag) {
		want := wanted(dst.Type(), tag)
		if dst.Kind() != reflect.String || tag.Get("enum") != "" { // else it may be a secret
			want += ", have " + show(v, dst.Kind())
		}
		f.problem(key, "want %s", want)
	}
	if len(f.problems) == before {
		f.checkBounds(key, v, dst, tag)
	}
	fits := len(f.problems) == before
	if kind := dst.Kind(); !fits && kind != reflect.Struct && kind != reflect.Map && (kind != reflect.Slice || dst.Type().Elem().Kind() != reflect.Struct) && tag.Get("form") != "literal" {
		dst.Set(unset)
	}
	return fits
}

// set sets dst to v if v is of the right type, and reports whether it is. It reports problems inside
// v itself.
func (f *findings) set(key string, v any, dst reflect.Value, tag reflect.StructTag) bool {
	switch unit := tag.Get("unit"); {
	case unit == "bytes":
		s, _ := v.(string)
		n, ok := parseSize(s)
		dst.SetInt(n)
		return ok
	case unit != "":
		unit, _ := time.ParseDuration(unit)
		number, ok := toFloat(v)
		dst.SetInt(int64(timeSpan(number, unit)))
		return ok
	case dst.Type() == reflect.TypeFor[time.Duration]():
		s, _ := v.(string)
		d, err := time.ParseDuration(s)
		return err == nil && d >= 0 && assign(dst, min(d, longest))
	case dst.Type() == reflect.TypeFor[json.RawMessage]():
		text, err := json.Marshal(v)
		dst.SetBytes(text)
		want := reflect.Slice
		if tag.Get("holds") == "table" {
			want = reflect.Map
		}
		return err == nil && reflect.TypeOf(v).Kind() == want
	}
	switch dst.Kind() {
	case reflect.Float64:
		number, ok := toFloat(v)
		return ok && assign(dst, number)
	case reflect.Int:
		i, ok := v.(int64)
		return ok && assign(dst, int(i))
	case reflect.String:
		s, ok := v.(string)
		dst.SetString(s)
		return ok && !strings.ContainsRune(s, 0)
	case reflect.Struct:
		if short, ok := fieldWithTag(dst.Type(), "short"); ok {
			if _, isText := v.(string); isText {
				return f.set(key, v, dst.FieldByIndex(short.Index), "")
			}
		}
		tree, ok := v.(map[string]any)
		f.bindTable(key, tree, dst)
		return ok
	case reflect.Map:
		tree, ok := v.(map[string]any)
		dst.Set(reflect.MakeMap(dst.Type()))
		for name, item := range tree {
			f.checkForm(join(key, name), tag.Get("keys"), name)
			target := reflect.New(dst.Type().Elem()).Elem()
			if f.bind(join(key, name), item, target, tag) || target.Kind() == reflect.Struct {
				dst.SetMapIndex(reflect.ValueOf(name), target)
			}
		}
		return ok
	case reflect.Slice:
		if name, ok := fieldWithTag(dst.Type().Elem(), "block"); ok {
			tree, ok := v.(map[string]any)
			f.bindBlocks(key, tree, dst, name)
			return ok
		}
		items := reflect.ValueOf(v) // []any, or []map[string]any of [[x]] blocks
		if items.Kind() != reflect.Slice {
			return false
		}
		dst.Set(reflect.MakeSlice(dst.Type(), items.Len(), items.Len()))
		for i := range items.Len() {
			f.bind(element(key, i), items.Index(i).Interface(), dst.Index(i), tag)
		}
		return true
	}
	return assign(dst, v)
}

// toFloat returns a number of the file that is neither infinite nor NaN.
func toFloat(v any) (number float64, ok bool) {
	if whole, ok := v.(int64); ok {
		return float64(whole), true
	}
	number, ok = v.(float64)
	return number, ok && !math.IsNaN(number) && !math.IsInf(number, 0)
}

// assign sets dst to v if it can hold it.
func assign(dst reflect.Value, v any) bool {
	fits := reflect.TypeOf(v).AssignableTo(dst.Type())
	if fits {
		dst.Set(reflect.ValueOf(v))
	}
	return fits
}

// fieldWithTag returns the field of a struct that has a tag. For a struct with a field that has the tag short, a
// string may stand for a table with only this field. For a slice of structs with a field that has the tag
// block, the file has a table of tables instead of an array, and the field is the name of the block.
func fieldWithTag(t reflect.Type, tag string) (reflect.StructField, bool) {
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if _, ok := f.Tag.Lookup(tag); ok {
				return f, true
			}
		}
	}
	return reflect.StructField{}, false
}

// bindBlocks appends the blocks of a table of tables to dst, in the order of the file.
func (f *findings) bindBlocks(key string, tree map[string]any, dst reflect.Value, nameField reflect.StructField) {
	line := func(name string) int { return f.pos.line(join(key, name)) }
	names := slices.SortedFunc(maps.Keys(tree), func(x, y string) int {
		return cmp.Or(cmp.Compare(line(x), line(y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		f.checkForm(join(key, name), nameField.Tag.Get("block"), name)
		item := reflect.New(dst.Type().Elem()).Elem()
		setDefaults(item)
		item.FieldByIndex(nameField.Index).SetString(name)
		f.bind(join(key, name), tree[name], item, "")
		dst.Set(reflect.Append(dst, item))
	}
}

// checkBounds checks the value v, bound to dst, against its form, enum, min and max tags. "" means that a key is not
// set, but not in an array.
func (f *findings) checkBounds(key string, v any, dst reflect.Value, tag reflect.StructTag) {
	if enum, closed := tag.Lookup("enum"); closed {
		if s := dst.String(); !slices.Contains(strings.Split(enum, "|"), s) {
			f.problem(key, "want %s, have %q", wanted(dst.Type(), tag), s)
		}
		return
	}
	if dst.Kind() == reflect.String && (dst.String() != "" || strings.HasSuffix(key, "]")) {
		f.checkForm(key, tag.Get("form"), dst.String())
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
	lowest, err := strconv.ParseFloat(low, 64)
	if err != nil {
		span, _ := time.ParseDuration(low)
		lowest = float64(span)
	}
	if highest, err := strconv.ParseFloat(high, 64); err == nil && (n < lowest || n > highest) {
		f.problem(key, "want %s to %s, have %v", low, high, v)
	} else if low != "" && n < lowest {
		f.problem(key, "want at least %s, have %v", low, v)
	}
}

// checkForm checks a string against a form, if the form is not "".
func (f *findings) checkForm(key, form, s string) {
	if rule, ok := forms()[form]; ok && !rule.ok(s) {
		if form == "path" { // a command's arguments may be secrets
			s, _, _ = strings.Cut(s, " ")
		}
		f.problem(key, "want %s, have %q", rule.want, s)
	}
}

// wanted describes the values that a field takes. It omits the choice "", which means that the key
// is not set.
func wanted(t reflect.Type, tag reflect.StructTag) string {
	if enum := strings.TrimPrefix(tag.Get("enum"), "|"); enum != "" {
		return `"` + strings.ReplaceAll(enum, "|", `" or "`) + `"`
	}
	switch {
	case tag.Get("unit") == "bytes":
		return `a size such as "64MiB", "512KB" or "0"`
	case tag.Get("unit") != "":
		return "a number"
	case t == reflect.TypeFor[time.Duration]():
		return `a time span such as "1.5s", "10m" or "0"`
	case tag.Get("holds") != "":
		return "a " + tag.Get("holds") + " of values that JSON can represent"
	case t.Kind() == reflect.Slice:
		if _, named := fieldWithTag(t.Elem(), "block"); named {
			return "a table"
		}
	case t.Kind() == reflect.Struct:
		if _, ok := fieldWithTag(t, "short"); ok {
			return "a string or a table"
		}
	}
	return map[reflect.Kind]string{
		reflect.String: "a quoted string without NUL characters", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number",
		reflect.Slice: "a list", reflect.Struct: "a table", reflect.Map: "a table",
	}[t.Kind()]
}

// show returns a value as messages show it in place of a kind. A string in place of a list or a table,
// such as args or env, may hold secrets.
func show(v any, want reflect.Kind) string {
	switch v := v.(type) {
	case string:
		if want == reflect.Slice || want == reflect.Map || want == reflect.Struct {
			return "a string"
		}
		return fmt.Sprintf("%.40q", v)
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "a list"
	}
	return fmt.Sprint(v)
}
