package record_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcpschedd/internal/record"
)

// Schema and struct agree: a filled and an empty Stats are valid, every field of the filled one is
// described, and a document with an additional or missing field is invalid.
func TestSchema(t *testing.T) {
	schema := compiled(t)
	var full record.Stats
	fill(reflect.ValueOf(&full).Elem())
	full.SchemaVersion, full.Config.LoadedAt = 1, start
	shown := func(s record.Stats) map[string]any { return asJSON(t, s) }
	busy := tallied(record.Event{Kind: record.Begin}, record.Event{Kind: record.Call, Disposition: record.Hit})
	for name, s := range map[string]record.Stats{"full": full, "empty": tallied().Stats(time.Time{}), "busy": busy.Stats(start)} {
		v := shown(s)
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, where := range []string{"", "totals", "totals.prefetch", "totals.harm", "totals.llm_turns_saved", "totals.latency_ms", "config", "tools.text", "tools.text.prefetch", "upstreams.text", "hosts.text"} {
		v := shown(full)
		at(v, where)["surprise"] = 1
		if schema.Validate(v) == nil {
			t.Errorf("an additional field in %q is valid", where)
		}
		for name := range at(shown(full), where) {
			v := shown(full)
			delete(at(v, where), name)
			optional := where == "hosts.text" && name != "host" && name != "level" || where == "config" && name != "path" || name == "running" || name == "replicas"
			if err := schema.Validate(v); (err == nil) != optional {
				t.Errorf("%q without %q: got %v", where, name, err)
			}
		}
	}
}

// asJSON returns the JSON of v, decoded.
func asJSON(t *testing.T, v any) map[string]any {
	var object map[string]any
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func compiled(t testing.TB) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(record.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("stats.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("stats.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// at returns an object inside another.
func at(v map[string]any, path string) map[string]any {
	for name := range strings.SplitSeq(path, ".") {
		if name != "" {
			v = v[name].(map[string]any)
		}
	}
	return v
}

// fill sets each exported field, and adds an element to each map.
func fill(v reflect.Value) {
	if _, is := reflect.TypeAssert[time.Time](v); is {
		v.Set(reflect.ValueOf(start))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.Tag.Get("json") != "-" && field.Name != "At" && field.Name != "Arguments" {
				fill(value)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.SetMapIndex(reflect.ValueOf("text"), one)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Interface: // the field is not described in detail
		v.Set(reflect.ValueOf("text"))
	case reflect.String:
		v.SetString("text")
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Type().String())
	}
}

var update = flag.Bool("update", false, "write stats.schema.json anew")

// The published schema matches the fields.
func TestSchemaFile(t *testing.T) {
	const file = "stats.schema.json"
	want := append(record.Schema(), '\n')
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s does not match the fields, %v: go test ./internal/record -run TestSchemaFile -update", file, err)
	}
}

// Every field has a description.
func TestSchemaDescribes(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(record.Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, object map[string]any)
	walk = func(path string, object map[string]any) {
		fields, _ := object["properties"].(map[string]any)
		for name, field := range fields {
			f := field.(map[string]any)
			if text, _ := f["description"].(string); text == "" {
				t.Errorf("%s.%s is not described", path, name)
			}
			walk(path+"."+name, f)
		}
		if object["type"] == "object" && object["additionalProperties"] == nil {
			t.Errorf("%s: has no type", path)
		}
		if inner, ok := object["additionalProperties"].(map[string]any); ok {
			walk(path+".*", inner)
		}
	}
	walk("", doc)
}
