package valuemodel_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

func quoted(s string) []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return raw
}

type step = valuemodel.Step

func TestParseBinding(t *testing.T) {
	args := func(path ...step) valuemodel.Binding { return valuemodel.Binding{From: valuemodel.Args, Path: path} }
	result := func(path ...step) valuemodel.Binding {
		return valuemodel.Binding{From: valuemodel.Result, Path: path}
	}
	constant := func(v any) valuemodel.Binding { return valuemodel.Binding{Value: v} }
	tests := []struct {
		value any
		want  valuemodel.Binding
		text  string // set if the value is not a text
	}{
		{"$args.owner", args(step{Name: "owner"}), ""},
		{"$args.a.b[0]", args(step{Name: "a"}, step{Name: "b"}, step{Index: 0}), ""},
		{"$result.items[*].number", result(step{Name: "items"}, step{All: true}, step{Name: "number"}), ""},
		{"$result", result(), ""},
		{"$args", args(), ""},
		{"$result[*][12]", result(step{All: true}, step{Index: 12}), ""},
		{"$result..iid", result(step{Name: "iid", Deep: true}), ""},
		{"$result..a.b..c[*]", result(step{Name: "a", Deep: true}, step{Name: "b"}, step{Name: "c", Deep: true}, step{All: true}), ""},
		{`$args["a.b"].c`, args(step{Name: "a.b"}, step{Name: "c"}), ""},
		{`$args..["a]"]`, args(step{Name: "a]", Deep: true}), ""},
		{`$args["plain"]`, args(step{Name: "plain"}), ""},
		{"$args.with space", args(step{Name: "with space"}), ""},
		{"$args.größe-1_x$", args(step{Name: "größe-1_x$"}), ""},
		{"$result[007]", result(step{Index: 7}), ""},

		{"open", constant("open"), ""},
		{"", constant(""), ""},
		{"$", constant("$"), ""},
		{"$5", constant("$5"), ""},
		{"a $args.b", constant("a $args.b"), ""},
		{"$$args.owner", constant("$args.owner"), ""},
		{"$$$", constant("$$"), ""},
		{"$$5", constant("$5"), ""},
		{true, constant(true), "true"},
		{int64(3), constant(int64(3)), "3"},
		{2.5, constant(2.5), "2.5"},
		{nil, constant(nil), "null"},
		{[]any{"a", 1.0}, constant([]any{"a", 1.0}), `["a",1]`},
		{map[string]any{"a": []any{}}, constant(map[string]any{"a": []any{}}), `{"a":[]}`},
	}
	for _, tt := range tests {
		got, err := valuemodel.ParseBinding(tt.value)
		if err != nil {
			t.Errorf("%v: %v", tt.value, err)
			continue
		}
		tt.want.Source = tt.value
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.value, diff)
		}
		text := tt.text
		if text == "" {
			text, _ = tt.value.(string)
		}
		if got.String() != text {
			t.Errorf("%v: got text %q, want %q", tt.value, got.String(), text)
		}
	}
}

func TestBindingsThatAreNone(t *testing.T) {
	tests := []struct {
		value any
		want  string
	}{
		{"$args.", `binding "$args.": position 6: want .name, ..name, [0], [*] or ["name"]`},
		{"$args.a.", `position 8: want .name`},
		{"$args.a..", `position 8: want .name`},
		{"$args...a", `position 6: want .name`},
		{"$args.a]", `position 8: want .name`},
		{"$args[", `position 6: want .name`},
		{"$args[]", `position 6: want .name`},
		{"$args[-1]", `position 6: want .name`},
		{"$args[+1]", `position 6: want .name`},
		{"$args[99999999999]", `position 6: want .name`},
		{"$args[*<3]", `position 6: want .name`},
		{"$args[*<=3]", `position 6: want .name`},
		{"$args[1", `position 6: want .name`},
		{"$args[*", `position 6: want .name`},
		{`$args["a`, `position 6: want .name`},
		{`$args["a"`, `position 6: want .name`},
		{`$args["a"x]`, `position 6: want .name`},
		{`$args[""]`, `position 6: want .name`},
		{`$args["\x"]`, `position 6: want .name`},
		{"$args..[0]", `position 6: want .name`},
		{"$text.lines[*]", `want $args or $result`},
		{"$argsx", `binding "$argsx": want $args or $result, or $$ for a literal $`},
		{"$reslt.x", `want $args or $result`},
		{"$Args.x", `want $args or $result`},
		{[]any{"$args.x"}, `binding "$args.x": a reference must be the whole value`},
		{map[string]any{"a": map[string]any{"b": "$result"}}, `a reference must be the whole value`},
		{math.NaN(), `want a reference or a JSON value`},
		{math.Inf(1), `want a reference or a JSON value`},
	}
	for _, tt := range tests {
		if got, err := valuemodel.ParseBinding(tt.value); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, %v, want error %q", tt.value, got, err, tt.want)
		}
	}
}

func FuzzParseBinding(f *testing.F) {
	for _, seed := range []string{"$args.a[0]", `$result..["a.b"][*].c`, "$$args", "$5", "$args.", "open", `$args["\u00e9."]`, "$result..a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := valuemodel.ParseBinding(text)
		if err != nil {
			return
		}
		if again, err := valuemodel.ParseBinding(b.String()); err != nil || cmp.Diff(b, again) != "" {
			t.Fatalf("%q: its text %q: %v (-first +again):\n%s", text, b.String(), err, cmp.Diff(b, again))
		}
	})
}
