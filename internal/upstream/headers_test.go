package upstream

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// statelessConn is a connection over HTTP to a server of the stateless era with the tools "plain" and "marked",
// and "odd", the schema of which has members that mcp-go merges.
func statelessConn() *conn {
	in := &instance{up: &Upstream{}}
	offer := &Offer{Lists: [Lists][]Item{Tools: items(Tools, []byte(`[{"name":"plain","inputSchema":{"type":"object"}},
		{"name":"marked","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},
			"b":{"type":["integer","boolean"],"x-mcp-header":"B"},"ö\n":{"type":"string","x-mcp-header":"O"},
			"c":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"C-A"},"d":{"properties":{"e":{"type":"integer","x-mcp-header":"E"}}}}}}}},
		{"name":"odd","inputSchema":{"properties":{"a":{"type":"string"}},"Properties":{"a":{"type":"string","x-mcp-header":"A"}},
			"properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}]`))}}
	offer.index()
	in.offer.Store(offer)
	c := newConn(in)
	c.http = true
	c.version.Store(revision.Latest)
	return c
}

// The headers are those that mcp-go makes of all params.
func TestHeaders(t *testing.T) {
	c := statelessConn()
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	texts := []string{`"plain"`, `"marked"`, `"odd"`, `""`, `"x"`, `" x"`, `"x\t"`, `"ö"`, `"\u00f6\ud800"`, `"\u0000"`, `"=?base64?eA==?="`, "\"\xff\""}
	var value func(depth int) string
	value = func(depth int) string {
		switch kind := r.IntN(12); {
		case kind < 4 || depth == 0:
			return pick(texts...)
		case kind < 7:
			return pick("1", "-0", "1.0", "1e3", "0.5", "9007199254740992", "true", "null", "[]", `[{"a":"x"}]`)
		default:
			var members []string
			for range r.IntN(6) {
				members = append(members, pick(`"a"`, `"\u0061"`, `"A"`, `"b"`, `"c"`, `"d"`, `"e"`, `"ö\n"`)+pick(":", " : ")+value(depth-1))
			}
			return "{" + strings.Join(members, pick(",", " , ")) + "}"
		}
	}
	for range 20_000 {
		members := []string{pick(`"name":`, `"uri":`, `"name" : `, `"na\u006de":`) + pick(texts...)}
		if r.IntN(8) > 0 {
			members = append(members, pick(`"arguments":`, `"arguments":`, `"argument\u0073":`, `"Arguments":`, `"arguments":{"b":1},"arguments":`)+value(4))
		}
		if r.IntN(2) == 0 {
			members = append(members, `"x":`+value(2), `"_meta":{"a":1}`)
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		req := &Request{Method: pick("tools/call", "tools/call", "prompts/get", "resources/read", "tools/list", "x"), Params: []byte("{" + strings.Join(members, ",") + "}")}
		if member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[req.Method]; jsonrpc.Get(req.Params, member) != nil && r.IntN(2) == 0 {
			req.Target = []byte(pick(texts...))
		}
		out := req.encode(c, 1)
		params := json.RawMessage(jsonrpc.Get(out.line, "params"))
		want := make(http.Header)
		for k, v := range mcp.StandardHeaders(revision.Latest, mcp.MCPMethod(req.Method), params) {
			want.Set(k, v)
		}
		if item, ok := c.in.offer.Load().Find(Tools, jsonrpc.Text(params, "name")); ok && req.Method == "tools/call" {
			for k, v := range mcp.GenerateParamHeaders(&mcp.Tool{RawInputSchema: jsonrpc.Get(item.Raw, "inputSchema")}, params) {
				want.Set(k, v)
			}
		}
		if diff := cmp.Diff(want, out.header); diff != "" {
			t.Fatalf("%s %s, target %s: (-want +got)\n%s", req.Method, req.Params, req.Target, diff)
		}
	}
}
