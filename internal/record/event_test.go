package record_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mcpschedd/internal/record"
)

// filled returns an event with every field of the log set.
func filled() (e record.Event) {
	fill(reflect.ValueOf(&e).Elem())
	return e
}

// line returns the line of an event.
func line(t testing.TB, e record.Event) string {
	text, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(text string) (e record.Event, err error) {
	err = e.UnmarshalJSON([]byte(text))
	return e, err
}

// Every field is written and read again.
func TestEveryField(t *testing.T) {
	want := filled()
	want.At = time.UnixMicro(1_770_000_000_123_456).UTC()
	want.Arguments = `{"a":[1,{"b":null}]}`
	got, err := parse(line(t, want))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestWhatIsWritten(t *testing.T) {
	e := record.Event{
		Kind: record.Choice, At: time.UnixMicro(7), Session: "<&>", Top: make([]record.Decision, 1), Arguments: "{\n\"a\":1}",
	}
	want := `{"kind":"choice","ts_us":7,"session":"<&>","top":[{"tool":"","p":0}],"arguments":{"a":1}}`
	if got := line(t, e); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, e := range map[string]record.Event{
		"not a number": {Kind: "call", LatencyMS: math.NaN()}, "infinite": {Kind: "call", HiddenMS: math.Inf(-1)}, "arguments, cut": {Kind: "call", Arguments: `{"a":`},
	} {
		if text, err := e.MarshalJSON(); err == nil {
			t.Errorf("%s: got %s", name, text)
		}
	}
}

func TestWrittenAndRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "github", "\u2028\x00\\\"é"}))
		float := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1e300, 5e-324, -0.1, 12.345}))
		want := record.Event{
			Kind: record.Kind(rapid.StringN(1, 20, -1).Draw(t, "kind")), Session: text.Draw(t, "session"), At: time.UnixMicro(rapid.Int64Range(1_000_000, 1<<53).Draw(t, "us")).UTC(),
			Seq: rapid.Int64().Draw(t, "seq"), LatencyMS: float.Draw(t, "latency"), Turn: rapid.Int().Draw(t, "turn"),
			IsError: rapid.Bool().Draw(t, "is_error"), Upstreams: rapid.SliceOf(text).Draw(t, "upstreams"),
			Reasons:   rapid.MapOf(text, rapid.Int()).Draw(t, "declined"),
			Arguments: rapid.SampledFrom([]string{"", "{}", `{"a":"é","b":[1.50,{"c":null}]}`}).Draw(t, "arguments"),
		}
		text1, err := want.MarshalJSON()
		if err != nil || strings.ContainsAny(string(text1), "\n\r") {
			t.Fatalf("no line of JSON: %q, %v", text1, err)
		}
		got, err := parse(string(text1))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v, %s (-want +got):\n%s", err, text1, diff)
		}
	})
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, line, want, err string }{
		{"later members", `{"kind":"call","new":{"kind":"x"},"seq":3}`, `{"kind":"call","seq":3}`, ""},
		{"later kinds", `{"kind":"dream","seq":3}`, `{"kind":"dream","seq":3}`, ""},
		{"another order and spaces", ` { "seq" : 3 , "kind" : "call" } `, `{"kind":"call","seq":3}`, ""},
		{"null", `{"kind":"call","seq":null,"top":null,"store":null}`, `{"kind":"call"}`, ""},
		{"a time beyond all calendars", `{"kind":"call","ts_us":9223372036854775807}`, `{"kind":"call","ts_us":253402300799000000}`, ""},
		{"arguments that are no object", `{"kind":"call","arguments":[]}`, `{"kind":"call"}`, ""},
		{"another record", `{"session":"a","seq":1}`, "", `not an event: it has no kind`},
		{"a text for a number", `{"kind":"call","seq":"3"}`, "", `seq: cannot be a string`},
		{"a fraction for a number", `{"kind":"call","seq":3.5}`, "", `seq: cannot be a number 3.5`},
		{"a number for a flag", `{"kind":"call","is_error":1}`, "", `is_error: cannot be a number`},
		{"a text for a list", `{"kind":"begin","upstreams":"a"}`, "", `upstreams: cannot be a string`},
		{"a bad element", `{"kind":"choice","top":[{"p":"x"}]}`, "", `p: cannot be a string`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := parse(c.line)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if got := line(t, e); err != nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(line(f, filled()))
	f.Add(`{"kind":"call","ts_us":15,"arguments":{"a":1}}`)
	f.Add(`{"kind":"k","top":[null,{}],"hosts":[{}],"declined":{"\u2028":1,"":2}}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parse(text)
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatal("accepted, and not JSON")
		}
		again := line(t, e)
		got, err := parse(again)
		if diff := cmp.Diff(e, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v, %s (-first +second):\n%s", err, again, diff)
		}
	})
}
