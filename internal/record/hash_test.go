package record_test

import (
	"bytes"
	"strings"
	"testing"

	"mcpschedd/internal/record"
)

// written returns an event as it is in the log.
func written(t *testing.T, o record.Options, e record.Event) (got record.Event) {
	o.Dir = t.TempDir()
	l := record.Open(o)
	l.Add(e)
	l.Close()
	for _, e := range read(t, o.Dir) {
		if e.Kind == record.Call || e.Kind == record.Harm {
			got = e
		}
	}
	return got
}

func argsHash(t *testing.T, key, arguments string) string {
	return written(t, record.Options{Key: []byte(key)}, record.Event{Kind: record.Call, RawArguments: []byte(arguments)}).ArgsHash
}

func TestArgsHash(t *testing.T) {
	// echo -n '{"a":1,"b":[1.0]}' | openssl dgst -sha256 -hmac key
	const want = "514a3ecf83e4dfe3"
	if got := argsHash(t, "key", ` { "b" : [1.0], "\u0061":1 }`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	long := `{"a":"` + strings.Repeat("x", 70_000)
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"none is an empty object", "", "{ }", true},
		{"other order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"another number", `{"a":1}`, `{"a":1.0}`, false},
		{"what two servers may read differently stays as written", `{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{"long, another length", long + `"}`, long + `x"}`, false},
		{"long, another beginning", long + `"}`, strings.Replace(long, "a", "b", 1) + `"}`, false},
		{"long, the same", long + `"}`, long + `"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a, b := argsHash(t, "key", c.a), argsHash(t, "key", c.b); (a == b) != c.same || len(a) != 16 {
				t.Errorf("got %s and %s, want equal hashes: %v", a, b, c.same)
			}
			if argsHash(t, "key", c.a) == argsHash(t, "another", c.a) {
				t.Error("the hash does not depend on the key")
			}
			if one, other := argsHash(t, "", c.a), argsHash(t, "", c.a); one == other {
				t.Error("without a key two processes have the same hashes, which others can compute")
			}
		})
	}
}

func TestResultHash(t *testing.T) {
	// printf '\x01\x02\x03\x04\x05\x06\x07\x08' | openssl dgst -sha256 -hmac key
	const want = "03889f66a8810b45"
	got := written(t, record.Options{Key: []byte("key")}, record.Event{Kind: record.Harm, ResultSum: 0x0102030405060708, RawArguments: []byte("{}")})
	if got.ResultHash != want || got.ArgsHash != "" {
		t.Errorf("got %q and %q, want %s, and no arguments of an event that is not a call", got.ResultHash, got.ArgsHash, want)
	}
}

func TestArgumentsInFull(t *testing.T) {
	scrub := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("secret"), []byte("***")) }
	for _, c := range []struct {
		name, raw, want string
	}{
		{"canonical, without secrets", `{"b": "my secret", "a":1}`, `{"a":1,"b":"my ***"}`},
		{"none", "", "{}"},
		{"too long", `{"a":"` + strings.Repeat("x", 65530) + `"}`, ""},
		{"not quite", `{"a":"` + strings.Repeat("x", 65528) + `"}`, `{"a":"` + strings.Repeat("x", 65528) + `"}`},
		{"ambiguous", `{"a":1,"a":"secret"}`, ""},
		{"no JSON", `secret`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := []byte(c.raw)
			got := written(t, record.Options{Full: true, Scrub: scrub}, record.Event{Kind: record.Call, RawArguments: raw})
			if string(got.Arguments) != c.want || len(got.ArgsHash) != 16 {
				t.Errorf("got %.80q, hash %q, want %.80q", got.Arguments, got.ArgsHash, c.want)
			}
			if string(raw) != c.raw {
				t.Error("the arguments were changed")
			}
		})
	}
	if got := written(t, record.Options{}, record.Event{Kind: record.Call, RawArguments: []byte(`{"a":1}`)}); got.Arguments != nil {
		t.Errorf("got %s, want it not recorded", got.Arguments)
	}
}
