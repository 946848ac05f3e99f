package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
)

// envelopes holds valid and invalid messages.
var envelopes = []struct {
	name string
	raw  string
	code int    // of the error; zero for none
	id   string // "-" for nil
	kind string // of a valid message
}{
	{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, 0, "1", "request"},
	{"white space", "\t{ \"jsonrpc\" : \"2.0\" ,\r\n \"id\" : \"x\" , \"method\" : \"ping\" , \"params\" : { } } ", 0, `"x"`, "request"},
	{"empty array params", `{"jsonrpc":"2.0","method":"notifications/initialized","params":[ ]}`, 0, "-", "notification"},
	{"notification with null params", `{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`, 0, "-", "notification"},
	{"result first, id last, as the TypeScript SDK writes it", `{"result":{"a":[1,{"id":5}]},"jsonrpc":"2.0","id":-1.5e3}`, 0, "-1.5e3", "response"},
	{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`, 0, "1", "response"},
	{"error", `{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}`, 0, "0", "response"},
	{"error with null id", `{"jsonrpc":"2.0","id":null,"error":{}}`, 0, "null", "response"},
	{"error with null id behind it", `{"jsonrpc":"2.0","error":{},"id":null}`, 0, "null", "response"},
	{"error without id", `{"jsonrpc":"2.0","error":{}}`, 0, "-", "response"},
	{"escaped keys and method", `{"\u006asonrpc":"2.0","\u0069\u0064":1,"m\u0065thod":"tools\/call"}`, 0, "1", "request"},
	{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"x/\ud83d\ude00\n"}`, 0, "1", "request"},
	{"other members, even repeated and called alike", `{"jsonrpc":"2.0","ID":3,"x":1,"x":2,"":0,"id ":4,"id":"","method":"ping"}`, 0, `""`, "request"},
	{"params of a response", `{"jsonrpc":"2.0","id":1,"result":1,"params":[1]}`, 0, "1", "response"},
	{"long id", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":1}`, 0, "123456789012345678901234567890", "response"},

	{"depth 10000", deep(10000), 0, "1", "response"},
	{"depth 10001", deep(10001), -32700, "1", ""},
	{"bad UTF-8 in the id", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32700, "-", ""},
	{"bad UTF-8 before the id", "{\"jsonrpc\":\"2.0\",\"method\":\"\xc3\",\"id\":1}", -32700, "-", ""},
	{"empty", ``, -32700, "-", ""},
	{"white space only", "  ", -32700, "-", ""},
	{"rubbish", `hello`, -32700, "-", ""},
	{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, -32700, "-", ""},
	{"cut", `{"jsonrpc":"2.0","id":1,"method":"pi`, -32700, "1", ""},
	{"cut inside the id", `{"jsonrpc":"2.0","id":12`, -32700, "-", ""},
	{"cut behind the id", `{"jsonrpc":"2.0","id":"12" `, -32700, "-", ""},
	{"rubbish behind", `{"jsonrpc":"2.0","id":1,"method":"ping"} x`, -32700, "1", ""},
	{"two messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, -32700, "1", ""},
	{"comma before the end", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, -32700, "1", ""},
	{"comma at the beginning", `{,"id":1}`, -32700, "-", ""},
	{"cut behind a nested id", `{"jsonrpc":"2.0","result":{"content":[{"id":5},`, -32700, "-", ""},
	{"no colon", `{"id" 1}`, -32700, "-", ""},
	{"key without quotes", `{id:1}`, -32700, "-", ""},
	{"wrong end", `{"id":1]`, -32700, "-", ""},
	{"id twice, then broken", `{"id":1,"id":2,"x"}`, -32700, "-", ""},
	{"null id, then broken", `{"id":null,"error":{},"x"}`, -32700, "-", ""},
	{"array", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "-", ""},
	{"array of depth 10000", strings.Repeat("[", 10000) + strings.Repeat("]", 10000), -32600, "-", ""},
	{"scalar", `17`, -32600, "-", ""},
	{"broken array", `[1,]`, -32700, "-", ""},
	{"empty object", ` { } `, -32600, "-", ""},
	{"no version", `{"id":1,"method":"ping"}`, -32600, "1", ""},
	{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "1", ""},
	{"version 2.0 as a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, -32600, "1", ""},
	{"null id of a request", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "-", ""},
	{"null id of a result", `{"jsonrpc":"2.0","id":null,"result":1}`, -32600, "-", ""},
	{"object id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "-", ""},
	{"array id", `{"jsonrpc":"2.0","id":[1],"result":1}`, -32600, "-", ""},
	{"boolean id", `{"jsonrpc":"2.0","id":true,"error":{}}`, -32600, "-", ""},
	{"method no string", `{"jsonrpc":"2.0","id":1,"method":5}`, -32600, "1", ""},
	{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, -32600, "1", ""},
	{"method empty", `{"jsonrpc":"2.0","id":1,"method":""}`, -32600, "1", ""},
	{"method with result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":1}`, -32600, "1", ""},
	{"method with error", `{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}`, -32600, "1", ""},
	{"method with null result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":null}`, -32600, "1", ""},
	{"array params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, -32602, "1", ""},
	{"scalar params", `{"jsonrpc":"2.0","method":"ping","params":"x","id":1}`, -32602, "1", ""},
	{"array params of a notification", `{"jsonrpc":"2.0","method":"ping","params":[{}]}`, -32602, "-", ""},
	{"array params and no version", `{"id":1,"method":"ping","params":[1]}`, -32600, "1", ""},
	{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, -32600, "1", ""},
	{"neither result nor error", `{"jsonrpc":"2.0","id":1}`, -32600, "1", ""},
	{"result without id", `{"jsonrpc":"2.0","result":1}`, -32600, "-", ""},
	{"error no object", `{"jsonrpc":"2.0","id":1,"error":"x"}`, -32600, "1", ""},
	{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, -32600, "1", ""},
	{"jsonrpc twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}`, -32600, "1", ""},
	{"id twice", `{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`, -32600, "-", ""},
	{"id twice, once null", `{"jsonrpc":"2.0","id":null,"id":1,"error":{}}`, -32600, "-", ""},
	{"id three times", `{"jsonrpc":"2.0","id":1,"id":2,"id":3,"method":"ping"}`, -32600, "-", ""},
	{"id twice, once escaped", `{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`, -32600, "-", ""},
	{"method twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, -32600, "1", ""},
	{"params twice", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"params":{}}`, -32600, "1", ""},
	{"result twice", `{"jsonrpc":"2.0","id":1,"result":1,"result":1}`, -32600, "1", ""},
	{"error twice", `{"jsonrpc":"2.0","id":1,"error":{},"error":{}}`, -32600, "1", ""},
}

func deep(n int) string {
	return `{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
}

func TestParse(t *testing.T) {
	for _, test := range envelopes {
		t.Run(test.name, func(t *testing.T) {
			m, err := jsonrpc.Parse([]byte(test.raw))
			code := 0
			if err != nil {
				code = err.(*jsonrpc.Error).Code
			}
			if code != test.code || string(m.Raw) != test.raw {
				t.Errorf("got %v of %q, want code %d", err, m.Raw, test.code)
			}
			id := string(m.ID)
			if m.ID == nil {
				id = "-"
			}
			if id != test.id {
				t.Errorf("got id %s, want %s", id, test.id)
			}
			if kind := kindOf(&m); err == nil && kind != test.kind {
				t.Errorf("got a %s, want a %s", kind, test.kind)
			}
		})
	}
}

// kindOf returns the names of all kinds of message that m reports to be.
func kindOf(m *jsonrpc.Message) (kind string) {
	if m.IsRequest() {
		kind += "request"
	}
	if m.IsNotification() {
		kind += "notification"
	}
	if m.IsResponse() {
		kind += "response"
	}
	return kind
}

// An append to a member of a message must not overwrite the next member.
func TestParseCapacity(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1}}`)
	before := string(raw)
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(m.ID, "999"...)
	_ = append(m.Params, "999"...)
	_ = append(jsonrpc.Get(m.Params, "a"), "999"...)
	for member := range jsonrpc.Members(m.Params) {
		_ = append(member.Name, "999"...)
		_ = append(member.Value, "999"...)
		_ = append(member.Raw, "999"...)
	}
	if string(raw) != before {
		t.Errorf("got %s, want %s", raw, before)
	}
}

func TestAllocations(t *testing.T) {
	request := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1,"b":"x\n"}}`)
	response := []byte(`{"result":{"content":[{"type":"text","text":"a\n\u00e9é"}]},"jsonrpc":"2.0","id":7}`)
	list := []byte(`[1,"a",{"b":[]}]`)
	if n := testing.AllocsPerRun(100, func() { jsonrpc.Parse(request) }); n > 1 {
		t.Errorf("Parse request: got %v allocations, want one for the method", n)
	}
	tests := []struct {
		name string
		run  func()
	}{
		{"Parse response", func() { jsonrpc.Parse(response) }},
		{"Valid", func() { jsonrpc.Valid(response) }},
		{"Members", func() {
			n := 0
			for m := range jsonrpc.Members(request) {
				n += len(m.Name)
			}
		}},
		{"Elements", func() {
			n := 0
			for e := range jsonrpc.Elements(list) {
				n += len(e)
			}
		}},
		{"Get", func() { jsonrpc.Get(request, "params") }},
		{"Delete nothing", func() { jsonrpc.Delete(request, func([]byte) bool { return false }) }},
	}
	for _, test := range tests {
		if n := testing.AllocsPerRun(100, test.run); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", test.name, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range envelopes {
		f.Add([]byte(test.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := jsonrpc.Parse(raw)
		valid := validStd(raw)
		code := 0
		if err != nil {
			code = err.(*jsonrpc.Error).Code
		}
		if (code != jsonrpc.CodeParse) != valid {
			t.Fatalf("got %v, want valid JSON: %v", err, valid)
		}
		var want map[string]json.RawMessage
		if !valid || json.Unmarshal(raw, &want) != nil || want == nil {
			if err == nil {
				t.Fatalf("got no error for a value that is not an object")
			}
			return
		}
		if err != nil {
			return // TestParse checks the errors
		}
		var method string
		if want["method"] != nil {
			if err := json.Unmarshal(want["method"], &method); err != nil {
				t.Fatal(err)
			}
		}
		wantParams := want["params"]
		if method == "" || wantParams != nil && wantParams[0] != '{' {
			wantParams = nil
		}
		if m.Method != method {
			t.Errorf("got method %q, want %q", m.Method, method)
		}
		for name, pair := range map[string][2][]byte{
			"id": {m.ID, want["id"]}, "params": {m.Params, wantParams},
			"result": {m.Result, want["result"]}, "error": {m.Error, want["error"]},
		} {
			if !bytes.Equal(pair[0], pair[1]) || (pair[0] == nil) != (pair[1] == nil) {
				t.Errorf("got %s %q, want %q", name, pair[0], pair[1])
			}
		}
		if kind := kindOf(&m); kind != "request" && kind != "notification" && kind != "response" {
			t.Errorf("got a %q, want one kind", kind)
		}
	})
}

// The index that Parse builds for a long message equals an index of its params.
func TestParseIndexes(t *testing.T) {
	long := `"` + strings.Repeat(`a\"{`, 2000) + `"`
	var many strings.Builder
	for i := range 20 {
		fmt.Fprintf(&many, `"m%d": %d, `, i, i)
	}
	for _, object := range []string{
		`{}`, `{"isError":true}`, `{"a":` + long + `}`, `{ "a" : ` + long + ` , "isError" : false }`, `{"_meta":{"a":1,"b":{}},"content":[{"text":` + long + `}],"a":{}}`,
		`{` + many.String() + `"last":` + long + `}`, `{"a":1,"a":` + long + `}`, `{"\u0061":` + long + `}`,
	} {
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":1,"result":%s}`, `{"jsonrpc":"2.0","before":{"x":1,"y":2},"result": %s ,"id":1,"behind":{"z":3}}`,
			`{"params":{"x":1},"jsonrpc":"2.0","result":%s,"id":1}`, `{"jsonrpc":"2.0","result":%s,"params":{"x":` + long + `},"id":1}`,
		} {
			m, err := jsonrpc.Parse(fmt.Appendf(nil, text, object))
			if err != nil {
				t.Fatal(err)
			}
			x := m.Index(m.Result)
			checkMembers(t, x.All(), object)
			x = m.Index([]byte(`{"other":1}`))
			checkMembers(t, x.All(), `{"other":1}`)
		}
		m, err := jsonrpc.Parse(fmt.Appendf(nil, `{"_":{"x":1},"jsonrpc":"2.0","id":1,"params":%s,"method":"m"}`, object))
		if err != nil {
			t.Fatal(err)
		}
		x := m.Index(m.Params)
		checkMembers(t, x.All(), object)
	}
}

func checkMembers(t *testing.T, got iter.Seq[jsonrpc.Member], object string) {
	t.Helper()
	want, all := slices.Collect(jsonrpc.Members([]byte(object))), slices.Collect(got)
	if !reflect.DeepEqual(want, all) { // much faster than cmp.Diff
		t.Errorf("%.80s: other members (-want +got):\n%s", object, cmp.Diff(want, all))
	}
}
