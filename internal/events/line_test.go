package events_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mcpschedd/internal/events"
)

// filled is a value of a type in which nothing is zero, and hardly anything the same.
func filled(t reflect.Type, n *int) reflect.Value {
	*n++
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString("text " + strconv.Itoa(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.125)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v = reflect.Append(v, filled(t.Elem(), n), filled(t.Elem(), n))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key(), n), filled(t.Elem(), n))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem(), n))
	case reflect.Struct:
		for i := range t.NumField() {
			if tag := t.Field(i).Tag.Get("json"); tag != "-" && tag != "" {
				v.Field(i).Set(filled(t.Field(i).Type, n))
			}
		}
	default:
		panic("no value for " + t.String())
	}
	return v
}

// What is written is what the tags of the types say: encoding/json reads the same.
func TestTableHasEveryField(t *testing.T) {
	n := 0
	want := filled(reflect.TypeFor[events.Event](), &n).Interface().(events.Event)
	want.At = time.UnixMicro(1_770_000_000_123_456).UTC()
	want.Arguments = `{"a":[1,{"b":null}]}`
	line := events.Append(nil, &want)

	got, err := events.Parse(line)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Parse: %v (-want +got):\n%s", err, diff)
	}
	var standard events.Event
	if err := json.Unmarshal(line, &standard); err != nil {
		t.Fatal(err)
	}
	standard.At, standard.Arguments = want.At, want.Arguments // not by their tags
	if diff := cmp.Diff(want, standard); diff != "" {
		t.Errorf("encoding/json (-want +got):\n%s", diff)
	}
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs map[string]any
	if json.Unmarshal(line, &ours) != nil || json.Unmarshal(written, &theirs) != nil {
		t.Fatal("one of the two is not JSON")
	}
	theirs["ts_us"], theirs["arguments"] = ours["ts_us"], ours["arguments"]
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("members (-encoding/json +ours):\n%s", diff)
	}
}

// Zero is written where encoding/json writes it, and nowhere else.
func TestZero(t *testing.T) {
	e := events.Event{Kind: events.State, Hosts: make([]events.Host, 1), Store: &events.Store{}, Top: make([]events.Decision, 1)}
	got := string(events.Append(nil, &e))
	want := `{"kind":"state","top":[{"tool":"","p":0}],"hosts":[{"host":"","level":0}],"store":{"entries":0,"bytes":0}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(events.Append([]byte("before "), &events.Event{})); got != `before {"kind":""}` {
		t.Errorf("got %s", got)
	}
}

func drawEvent(t *rapid.T) events.Event {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "github", "\u2028\x00\\\"é"}))
	float := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1e300, 5e-324, -0.1, 12.345}))
	e := events.Event{
		Kind: events.Kind(rapid.StringN(1, 20, -1).Draw(t, "kind")), Session: text.Draw(t, "session"),
		Seq: rapid.Int64().Draw(t, "seq"), Tool: text.Draw(t, "tool"), Edge: text.Draw(t, "edge"),
		LatencyMS: float.Draw(t, "latency"), PredictedP: float.Draw(t, "p"), Turn: rapid.Int().Draw(t, "turn"),
		IsError: rapid.Bool().Draw(t, "is_error"), Upstreams: rapid.SliceOf(text).Draw(t, "upstreams"),
		Reasons:   rapid.MapOf(text, rapid.Int()).Draw(t, "declined"),
		Arguments: rapid.SampledFrom([]string{"", "{}", `{"a":"` + "é" + `","b":[1.50,{"c":null}]}`}).Draw(t, "arguments"),
	}
	if rapid.Bool().Draw(t, "dated") {
		e.At = time.UnixMicro(rapid.Int64Range(-1<<50, 1<<53).Draw(t, "us")).UTC()
	}
	for range rapid.IntRange(0, 3).Draw(t, "top") {
		e.Top = append(e.Top, events.Decision{Tool: text.Draw(t, "tool"), P: float.Draw(t, "p"), Called: rapid.Bool().Draw(t, "called")})
	}
	return e
}

func TestAppendThenParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawEvent(t)
		line := events.Append(nil, &want)
		if !json.Valid(line) || strings.ContainsAny(string(line), "\n\r") {
			t.Fatalf("no line of JSON: %q", line)
		}
		got, err := events.Parse(line)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v, %s (-want +got):\n%s", err, line, diff)
		}
	})
}

// What JSON has no word for is left out, and the line is one.
func TestAppendWhatCannotBeWritten(t *testing.T) {
	for name, e := range map[string]events.Event{
		"not a number":      {Kind: "call", LatencyMS: math.NaN()},
		"infinite":          {Kind: "call", HiddenMS: math.Inf(-1)},
		"arguments, cut":    {Kind: "call", Arguments: `{"a":`},
		"arguments, a list": {Kind: "call", Arguments: `[1]`},
		"arguments, two":    {Kind: "call", Arguments: `{},"kind":"end"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(events.Append(nil, &e)); got != `{"kind":"call"}` {
				t.Errorf("got %s", got)
			}
		})
	}
	e := events.Event{Kind: "call", Session: "\xff", Arguments: "{\n\"a\":1\r\n}"}
	if got, want := string(events.Append(nil, &e)), "{\"kind\":\"call\",\"session\":\"\ufffd\",\"arguments\":{ \"a\":1  }}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"later members", `{"kind":"call","new":{"kind":"x"},"seq":3}`, `{"kind":"call","seq":3}`},
		{"later kinds", `{"kind":"dream","seq":3}`, `{"kind":"dream","seq":3}`},
		{"another order", ` { "seq" : 3 , "kind" : "call" } `, `{"kind":"call","seq":3}`},
		{"null", `{"kind":"call","seq":null,"top":null,"store":null,"at":null}`, `{"kind":"call"}`},
		{"numbers of other programs", `{"kind":"call","seq":3.0,"ts_us":1.7e15,"latency_ms":2}`, `{"kind":"call","ts_us":1700000000000000,"seq":3,"latency_ms":2}`},
		{"twice: the last one", `{"kind":"call","seq":3,"seq":4}`, `{"kind":"call","seq":4}`},
		{"escapes", `{"\u006bind":"ca\u006cl"}`, `{"kind":"call"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := events.Parse([]byte(c.line))
			if got := string(events.Append(nil, &e)); err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// Times that other formats have no words for become ones that they have.
func TestParseExtremeTimes(t *testing.T) {
	for us, want := range map[string]string{
		"9223372036854775807": "9999-12-31T23:59:59.999999Z", "253402300800000000": "9999-12-31T23:59:59.999999Z",
		"-9223372036854775808": "0001-01-01T00:00:00Z", "-62135596800000001": "0001-01-01T00:00:00Z",
		"-1": "1969-12-31T23:59:59.999999Z", "253402300799999999": "9999-12-31T23:59:59.999999Z",
	} {
		e, err := events.Parse([]byte(`{"kind":"call","ts_us":` + us + `}`))
		text, failed := e.At.MarshalText()
		if err != nil || failed != nil || string(text) != want {
			t.Errorf("%s: got %s, %v, %v, want %s", us, text, failed, err, want)
		}
	}
}

// Fixed: a line of a megabyte could hold a hundred megabytes of elements. What comes
// behind those that are read is not looked at.
func TestParseWideLines(t *testing.T) {
	wide := func(element string) string {
		return strings.Repeat(element+",", events.MaxElements) + strings.Repeat("3,", 1000) + "3"
	}
	var names strings.Builder
	for i := range events.MaxElements {
		names.WriteString(`"` + strconv.Itoa(i) + `":1,`)
	}
	for _, list := range []string{
		`"hosts":[` + wide(`{}`) + `]`, `"top":[` + wide(`{}`) + `]`, `"needs":[` + wide(`"a"`) + `]`, `"upstreams":[` + wide(`""`) + `]`,
		`"declined":{` + names.String() + `"more":"text","more still":[]}`,
	} {
		e, err := events.Parse([]byte(`{"kind":"state",` + list + `,"sessions":7}`))
		if n := len(e.Hosts) + len(e.Top) + len(e.Needs) + len(e.Upstreams) + len(e.Reasons); err != nil || n != events.MaxElements || e.Sessions != 7 {
			t.Errorf("%.20s…: got %d elements and %d sessions, %v, want %d and 7", list, n, e.Sessions, err, events.MaxElements)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"nothing", ``, `not JSON`},
		{"half", `{"kind":"call","seq":`, `not JSON`},
		{"two", `{"kind":"call"}{"kind":"call"}`, `not JSON`},
		{"no object", `["kind"]`, `not an event: it has no kind`},
		{"another record", `{"session":"a","seq":1}`, `not an event: it has no kind`},
		{"a kind that is none", `{"kind":3}`, `kind: want a string, have 3`},
		{"a text for a number", `{"kind":"call","seq":"3"}`, `seq: want a whole number, have "3"`},
		{"a text for a fraction", `{"kind":"call","latency_ms":"3"}`, `latency_ms: want a number, have "3"`},
		{"a fraction for a number", `{"kind":"call","seq":3.5}`, `seq: want a whole number, have 3.5`},
		{"beyond all bounds", `{"kind":"call","seq":1e30}`, `seq: want a whole number, have 1e30`},
		{"beyond floats", `{"kind":"call","latency_ms":1e999}`, `latency_ms: want a number, have 1e999`},
		{"a number for a flag", `{"kind":"call","is_error":1}`, `is_error: want true or false, have 1`},
		{"a text for a list", `{"kind":"begin","upstreams":"a"}`, `upstreams: want an array of strings, have "a"`},
		{"a list of other things", `{"kind":"begin","upstreams":[1]}`, `upstreams: want an array of strings, have [1]`},
		{"a bad element", `{"kind":"choice","top":[{"p":"x"}]}`, `top: want an array of objects, have [{"p":"x"}]`},
		{"arguments, a list", `{"kind":"call","arguments":[]}`, `arguments: want an object, have []`},
		{"what a terminal obeys", "{\"kind\":\"call\",\"seq\":\"\u009b2J\u202egnp\x7f\u00a0\ufeff\"}", `seq: want a whole number, have "\u009b2J\u202egnp\x7f\u00a0\ufeff"`},
		{"a long one", `{"kind":"call","seq":"` + strings.Repeat("é", 500) + `"}`, `seq: want a whole number, have "` + strings.Repeat("é", 39)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := events.Parse([]byte(c.line))
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	n := 0
	all := filled(reflect.TypeFor[events.Event](), &n).Interface().(events.Event)
	f.Add(events.Append(nil, &all))
	for _, line := range []string{
		`{"kind":"call","ts_us":1.5e15,"arguments":{"a":1}}`, `{"kind":"x","declined":{"\u2028":1,"":2}}`, "{\"kind\":\"\x00\"}",
		`{"kind":"a","latency_ms":-0,"p":1e-300}`, `{"kind":"\ud800"}`, `{"kind":"k","top":[null,{}],"hosts":[{}]}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := string(line)
		e, err := events.Parse(line)
		if string(line) != before {
			t.Fatal("the line was changed")
		}
		if err != nil {
			return
		}
		if !json.Valid(line) {
			t.Fatal("accepted, and not JSON")
		}
		again := events.Append(nil, &e)
		got, err := events.Parse(again)
		if diff := cmp.Diff(e, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v, %s (-first +second):\n%s", err, again, diff)
		}
		if twice := events.Append(nil, &got); string(twice) != string(again) {
			t.Fatalf("got %s, then %s", again, twice)
		}
	})
}
