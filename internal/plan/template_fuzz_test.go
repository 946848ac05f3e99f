package plan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// FuzzTemplate parses any bytes as a template, with any JSON as results.
func FuzzTemplate(f *testing.F) {
	for _, raw := range []string{
		`{"data_a": "$ref:weather_tokyo", "data_b": "$ref:weather_london.temp.0"}`, `["$result_1","$$ref:a","x $ref:b"]`,
		`{"a":{"$ref":"s#/items/*/id","default":[1]},"b":{"$tpl":"x ${s#/p} $${y} $$${z#}"},"c":{"$lit":{"$ref":"s#"}}}`,
		`[1e400, -0, 1.0, "\ud800", "\u0024ref:a", {"a":1,"\u0061":2}]`, `{"$ref":"#/definitions/x"}`, `{"$ref":"$ref:a"}`, `{"$tpl":"${"}`,
		strings.Repeat(`[{"a":`, 40) + `"$ref:a"` + strings.Repeat("}]", 40),
	} {
		f.Add([]byte(raw), []byte(`{"items":[{"id":1},{"id":"$ref:a"}],"p":"${s#}","temp":[{"$tpl":"${a#}"}]}`))
	}
	s, err := schema.Compile([]byte(`{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":{"type":["string","array"],"items":{"type":"string"}}}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw, data []byte) {
		tpl, defects := plan.ParseTemplate(raw, "/at")
		valid := json.Valid(raw) && utf8.Valid(raw)
		switch {
		case (tpl == nil) == (defects == nil):
			t.Fatalf("%q: a template %t and %d defects", raw, tpl != nil, len(defects))
		case defects != nil:
			for _, d := range defects {
				if !strings.HasPrefix(d.Pointer, "/at") || d.Message == "" || d.Step != "" {
					t.Errorf("%q: defect %q", raw, d)
				}
			}
			return
		case !valid:
			t.Fatalf("%q: a template, and no JSON", raw)
		}
		tpl.CheckConstants(s)
		if constant := tpl.Constant(); constant != nil {
			sameConstant(t, raw, constant)
		}
		if !json.Valid(data) {
			return // no call returns this
		}
		onlyOnce(t, tpl)
		for _, want := range []*schema.Schema{nil, s} {
			for _, most := range []int{0, 50} {
				got, err := tpl.Fill(given("", string(data)).any, want, most)
				if err != nil {
					if got != nil || !strings.Contains(err.Error(), "/at") {
						t.Errorf("%q: got %s with error %v", raw, got, err)
					}
					continue
				}
				if !json.Valid(got) || !utf8.Valid(got) || most > 0 && len(got) > most {
					t.Errorf("%q with %q: got %q of at most %d bytes", raw, data, got, most)
				}
			}
		}
	})
}

// any returns the same result for each step.
func (r results) any(*plan.Ref) (plan.Value, error) { return r[""], nil }

// sameConstant compares a template without references with its source.
func sameConstant(t *testing.T, raw, constant []byte) {
	if bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte("$lit")) || bytes.Contains(raw, []byte("$tpl")) ||
		bytes.Contains(raw, []byte("$$re")) {
		if !json.Valid(constant) {
			t.Errorf("%q: constant %q", raw, constant)
		}
		return
	}
	if diff := cmp.Diff(decoded(raw), decoded(constant)); diff != "" {
		t.Errorf("%q: want-, got+:\n%s", raw, diff)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw); !json.Valid(constant) || len(constant) > compact.Len() {
		t.Errorf("%q: constant %q is not compact", raw, constant)
	}
}

func decoded(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	d.Decode(&v)
	return v
}

// onlyOnce checks that inserted values are not resolved again: a result full of references is
// inserted like any other.
func onlyOnce(t *testing.T, tpl *plan.Template) {
	const neutral = "2f0cde51"
	for _, r := range tpl.Refs() {
		if r.Pointer != "" {
			return
		}
	}
	asked := 0
	with := func(text string) string {
		got, err := tpl.Fill(func(*plan.Ref) (plan.Value, error) {
			asked++
			return plan.Value{JSON: []byte(`"` + text + `"`)}, nil
		}, nil, 0)
		if err != nil {
			t.Error(err)
		}
		return string(got)
	}
	want := with(neutral)
	if asked != len(tpl.Refs()) {
		t.Errorf("%d references, asked for %d", len(tpl.Refs()), asked)
	}
	for _, evil := range []string{"$ref:a", "$result_a", "${a#}", "$$ref:a", "{'$lit':1}"} {
		if got := with(evil); got != strings.ReplaceAll(want, neutral, evil) {
			t.Errorf("with %s: got %s, and with another text %s", evil, got, want)
		}
	}
}

// FuzzPointer resolves references with any text.
func FuzzPointer(f *testing.F) {
	f.Add("/items/*/id", `{"items":[{"id":1},{}]}`)
	f.Add("/*/*", `[[1],{"*":2}]`)
	f.Add("/a~1b/0", `{"a/b":["$ref:x"]}`)
	f.Add(".a.0", ` [{}] `)
	f.Fuzz(func(t *testing.T, pointer, data string) {
		name, _ := json.Marshal(pointer)
		object := []byte(`{"$ref":"a#` + string(name[1:]) + `,"default":[null]}`)
		for _, raw := range [][]byte{object, []byte(`"$ref:a` + string(name[1:])), []byte(`{"$ref":"a#` + string(name[1:]) + `}`)} {
			ref, defects := plan.ParseRef(raw, "/at")
			if (ref == nil) == (defects == nil) {
				t.Fatalf("%s: reference %v and %d defects", raw, ref, len(defects))
			}
			if ref == nil {
				continue
			}
			v, err := plan.ResolveRef(ref, given("", data).any)
			switch {
			case err == nil && !(json.Valid(v.JSON) && utf8.Valid(v.JSON)):
				t.Errorf("%s in %q: got %q", raw, data, v.JSON)
			case err != nil && json.Valid([]byte(data)) && utf8.ValidString(data) && (ref.Default != nil || ref.Null):
				t.Errorf("%s in %q: %v", raw, data, err)
			case err == nil && !strings.Contains(pointer, "*") && ref.Default == nil && !ref.Null && !strings.Contains(data, string(v.JSON)):
				t.Errorf("%s in %q: got %q, which is not there", raw, data, v.JSON)
			}
		}
	})
}
