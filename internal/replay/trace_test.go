package replay_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/replay"
)

func TestReadTrace(t *testing.T) {
	text := `{"session":"s","batch":1,"tool":"get","arguments":{"n":9007199254740993},"meta":{}}` + "\r\n\n" +
		`  {"session":"s","batch":1,"ts_ms":5,"res_ts_ms":5,"tool":"list","arguments":null,"result_text":"abc","result_bytes":2}`
	calls, err := replay.ReadTrace("t", strings.NewReader(text))
	if err != nil || len(calls) != 2 {
		t.Fatalf("got %d calls, %v", len(calls), err)
	}
	if got := string(calls[0].Arguments); got != `{"n":9007199254740993}` {
		t.Errorf("arguments: got %s", got)
	}
	if got := string(calls[1].Arguments); got != "{}" {
		t.Errorf("null arguments: got %s", got)
	}
	if got := calls[1].Bytes; got != 3 {
		t.Errorf("bytes: got %d, want at least the length of the text", got)
	}
}

// An event log may have recorded an argument named batch.
func TestIsTrace(t *testing.T) {
	for text, want := range map[string]bool{
		"\n" + `{"session":"s","batch":0,"tool":"get"}`:                       true,
		`{"kind":"call","tool":"get","arguments":{"batch":0}}`:                false,
		`{"kind":"begin"}` + "\n" + `{"kind":"call","arguments":{"batch":0}}`: false,
		"nonsense": false,
		"":         false,
	} {
		name := filepath.Join(t.TempDir(), "f.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := replay.IsTrace(name); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// An error names the bad line, and no calls are returned.
func TestReadTraceErrors(t *testing.T) {
	good := `{"session":"s","batch":3,"tool":"get","arguments":{}}`
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `nonsense`, "t:2: want one JSON object: "},
		{"half an object", `{"tool":`, "t:2: want one JSON object: "},
		{"two objects", good + good, "t:2: want one JSON object: "},
		{"null", `null`, "t:2: want an object, have null"},
		{"list", `[]`, "t:2: want an object, have a JSON array"},
		{"an event log", `{"kind":"begin","v":2}`, "t:2: want recorded calls; this is an event log, which stats and tune read"},
		{"no tool", `{"session":"s","batch":3}`, "t:2: tool: want a name"},
		{"tool", `{"session":"s","batch":3,"tool":7}`, "t:2: tool: want a string, have a JSON number"},
		{"batch", `{"session":"s","batch":"3","tool":"get"}`, "t:2: batch: want a whole number, have a JSON string"},
		{"half a batch", `{"session":"s","batch":3.5,"tool":"get"}`, "t:2: batch: want a whole number, have a JSON number 3.5"},
		{"error", `{"session":"s","batch":3,"tool":"get","is_error":1}`, "t:2: is_error: want true or false, have a JSON number"},
		{"arguments", `{"session":"s","batch":3,"tool":"get","arguments":[1]}`, "t:2: arguments: want an object"},
		{"bytes", `{"session":"s","batch":3,"tool":"get","result_bytes":-1}`, "t:2: result_bytes: want at least 0, have -1"},
		{"backwards", `{"session":"s","batch":3,"tool":"get","ts_ms":9,"res_ts_ms":8}`, "t:2: res_ts_ms: want at least ts_ms, 9, have 8"},
		{"far away", `{"session":"s","batch":3,"tool":"get","ts_ms":9223372036854775807}`, "t:2: ts_ms, res_ts_ms: want milliseconds since 1970, "},
		{"before", `{"session":"s","batch":3,"tool":"get","ts_ms":-1}`, "t:2: ts_ms, res_ts_ms: want milliseconds since 1970, "},
		{"out of order", `{"session":"s","batch":2,"tool":"get"}`, `t:2: batch: want at least 3, the one before in session "s", have 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls, err := replay.ReadTrace("t", strings.NewReader(good+"\n"+c.line+"\n"+good))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || calls != nil {
				t.Errorf("got %d calls, %v, want %q", len(calls), err, c.want)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 2000 {
		fmt.Fprintf(z, `{"session":"s","batch":%d,"tool":"get","arguments":{"n":%d}}`+"\n", i, i*i)
	}
	z.Close()
	dir := t.TempDir()
	whole, half := filepath.Join(dir, "whole"), filepath.Join(dir, "half")
	for name, data := range map[string][]byte{whole: packed.Bytes(), half: packed.Bytes()[:packed.Len()/2]} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if calls, err := replay.ReadFile(whole); err != nil || len(calls) != 2000 {
		t.Errorf("got %d calls, %v, want 2000", len(calls), err)
	}
	if calls, err := replay.ReadFile(half); err == nil || !strings.HasPrefix(err.Error(), half+":") || calls != nil {
		t.Errorf("got %d calls, %v, want an error that names the line in %s", len(calls), err, half)
	}
	if _, err := replay.ReadFile(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file: got no error")
	}
}

// Recorded times are used, and no turn starts before the previous turn has ended.
func TestTimes(t *testing.T) {
	text := `{"session":"s","batch":1,"tool":"a","ts_ms":1000,"res_ts_ms":1500}
{"session":"s","batch":1,"tool":"b","ts_ms":1200,"res_ts_ms":3000}
{"session":"s","batch":2,"tool":"c","ts_ms":7000}
{"session":"s","batch":3,"tool":"d","ts_ms":7500,"res_ts_ms":7500}
{"session":"s","batch":4,"tool":"e"}
{"session":"s","batch":5,"tool":"f","ts_ms":7000,"res_ts_ms":7010}`
	calls, err := replay.ReadTrace("t", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ms := func(from, to float64) [2]time.Duration {
		return [2]time.Duration{time.Duration(from * 1e6), time.Duration(to * 1e6)}
	}
	want := [][2]time.Duration{
		ms(0, 500), ms(200, 2000),
		ms(6000, 7000),           // the end was not recorded
		ms(10000, 10000.001),     // so the think time before this turn was not either
		ms(13000.001, 14000.001), // no times were recorded
		ms(17000.001, 17010.001),
	}
	got := replay.Sessions(calls)[0].Times(3 * time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"session":"s","batch":1,"ts_ms":5,"res_ts_ms":9,"tool":"list","arguments":{"a":[1,{}]},"result_text":"abc"}` + "\n{}"))
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		calls, err := replay.ReadTrace("t", bytes.NewReader(data))
		if err != nil && calls != nil {
			t.Error("got calls and an error")
		}
		for i, s := range replay.Sessions(calls) {
			last := time.Duration(0)
			for _, at := range s.Times(time.Second) {
				if at[1] <= at[0] || at[0] < 0 {
					t.Errorf("session %d: a call from %v to %v", i, at[0], at[1])
				}
				last = max(last, at[1])
			}
		}
	})
}
