package record_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mcpschedd/internal/record"
)

// line returns the line of an event.
func line(t interface{ Fatal(...any) }, e record.Event) string {
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every field is written, and read back unchanged.
func TestEveryField(t *testing.T) {
	var want record.Event
	fill(reflect.ValueOf(&want).Elem())
	want.At, want.Arguments = start, json.RawMessage(`{"a":[1,{"b":null}]}`)
	var got record.Event
	err := json.Unmarshal([]byte(line(t, want)), &got)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Events with any texts are read from a log as they were added.
func TestWrittenAndRead(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.StringN(0, 50, 200), rapid.SampledFrom([]string{"", "github", "\u2028\x00\\\"é", "<&>"}))
		float := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.SampledFrom([]float64{0, 5e-324, 12.345}))
		want := record.Event{
			Kind: record.Level, Session: text.Draw(rt, "session"), At: time.UnixMicro(rapid.Int64Range(1_000_000, 1<<53).Draw(rt, "us")).UTC(),
			Seq: rapid.Int64Range(0, 1<<40).Draw(rt, "seq"), LatencyMS: float.Draw(rt, "latency"), IsError: rapid.Bool().Draw(rt, "is_error"),
			Declined:  rapid.MapOf(text, rapid.IntRange(0, 9)).Draw(rt, "declined"),
			Arguments: rapid.SampledFrom([]json.RawMessage{nil, []byte("{}"), []byte(`{"a":"é","b":[1.50,{"c":null}]}`)}).Draw(rt, "arguments"),
		}
		l := record.Open(record.Options{Dir: dir})
		l.Add(want)
		l.Close()
		files := must(record.Files(dir))
		for _, got := range read(t, dir) {
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(record.Event{}, "Process")); got.Kind == record.Level && diff != "" {
				rt.Fatalf("-want +got:\n%s", diff)
			}
		}
		for _, f := range files {
			os.Remove(f.Path)
		}
	})
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, line, want, err string }{
		{"later members", `{"kind":"call","disposition":"hit","new":{"kind":"x"},"upstream":"u"}`, `{"kind":"call","upstream":"u","disposition":"hit"}`, ""},
		{"later kinds", `{"kind":"dream","seq":3}`, `{"kind":"dream","seq":3}`, ""},
		{"another order and spaces", ` { "seq" : 3 , "kind" : "plan" } `, `{"kind":"plan","seq":3}`, ""},
		{"null", `{"kind":"plan","seq":null,"top":null,"store":null}`, `{"kind":"plan"}`, ""},
		{"numbers beyond the bounds", `{"kind":"plan","seq":-3,"latency_ms":1e300,"bytes_in":9223372036854775807}`, `{"kind":"plan","latency_ms":1000000000000,"bytes_in":1099511627776}`, ""},
		{
			"numbers and names beyond the bounds, within others",
			`{"kind":"choice","declined":{"` + strings.Repeat("r", 300) + `":9223372036854775807,"gate":-1},"top":[{"tool":"` + strings.Repeat("t", 300) + `","p":-1,"tokens":-5}]}`,
			`{"kind":"choice","declined":{"gate":0,"` + strings.Repeat("r", 253) + `…":1099511627776},"top":[{"tool":"` + strings.Repeat("t", 253) + `…","p":0}]}`, "",
		},
		{"another record", `{"session":"a","seq":1}`, "", `not an event: it has no kind`},
		{"a text for a number", `{"kind":"call","seq":"3"}`, "", `cannot unmarshal string into Go struct field Event.seq of type int64`},
		{"a bad element", `{"kind":"choice","top":[{"p":"x"}]}`, "", `top.p of type float64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "x.jsonl"), c.line+"\n")
			var got, problems []string
			err := record.Read(t.Context(), []string{path}, func(e *record.Event) {
				if e.Kind != record.End {
					got = append(got, line(t, *e))
				}
			}, func(p record.Problem) { problems = append(problems, p.Text) })
			if want := strings.Join(got, ""); want != c.want || err != nil || (c.err == "") != (problems == nil) || !strings.Contains(fmt.Sprint(problems), c.err) {
				t.Errorf("got %s, %q, %v; want %s, %q", got, problems, err, c.want, c.err)
			}
		})
	}
}
