package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// opening returns the first request of a client of an era, with its capabilities.
func opening(c *caller, name, capabilities string) string {
	c.t.Helper()
	info := `{"name":"` + name + `","version":"1"}`
	if c.era == handshake {
		return c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":`+info+`}`)
	}
	meta := `{"io.modelcontextprotocol/protocolVersion":"` + stateless + `","io.modelcontextprotocol/clientCapabilities":` + capabilities + `,"io.modelcontextprotocol/clientInfo":` + info + `}`
	m := c.startAs("server/discover", `{"_meta":`+meta+`}`).wait()
	return string(m.Result)
}

// The first response waits for no server and declares the capabilities that a later one may
// have. The lists wait for the servers.
func TestBeginningDoesNotWait(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		gate := mcptest.NewGate(t)
		o := options(child(t, mcptest.Options{Name: "slow", Gate: gate.Addr()}), shelf("known", "tool"))
		o.StartupWait = time.Hour
		c := attach(t, start(t, o), era)
		began := opening(c, "tester", able)
		for _, want := range []string{`"tools":{"listChanged":true}`, `"prompts":{"listChanged":true}`, `"resources":{"subscribe":true,"listChanged":true}`, `"logging":{}`, `"completions":{}`} {
			if !strings.Contains(began, want) {
				t.Errorf("%s: got %s, want %s in it", era, began, want)
			}
		}
		lists := []pending{c.start("tools/list", ""), c.start("prompts/list", "")}
		at := gate.Next()
		c.request("resources/read", `{"uri":"mcpschedd://stats"}`) // requests that need no server do not wait for the lists
		for _, l := range lists {
			if !l.open() {
				t.Errorf("%s: a list did not wait: %s", era, l.wait().Raw)
			}
		}
		at.Open()
		for i, want := range []string{`"slow__echo"`, `"slow__ask"`} {
			if m := lists[i].wait(); !strings.Contains(string(m.Result), want) {
				t.Errorf("%s: got %s, want %s in it", era, m.Raw, want)
			}
		}
	}
}

// Capabilities declared for servers that are starting are served empty.
func TestDeclaredAndEmpty(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		c := connect(t, start(t, options(child(t, mcptest.Options{Name: "a", Capabilities: `{"tools":{}}`}))), era)
		for method, want := range map[string]string{"prompts/list": `"prompts":[]`, "resources/templates/list": `"resourceTemplates":[`} {
			if got := c.request(method, ""); !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", method, got, want)
			}
		}
		for _, ref := range []string{`{"type":"ref/prompt","name":"none"}`, `{"type":"ref/resource","uri":"a://t/{id}"}`} {
			if got := c.request("completion/complete", `{"ref":`+ref+`,"argument":{"name":"id","value":"x"}}`); !strings.Contains(got, `"completion":{"values":[]}`) {
				t.Errorf("%s: got %s, want no values", ref, got)
			}
		}
		if era == handshake {
			c.request("logging/setLevel", `{"level":"debug"}`)
		}
	}
}

// instructed is an upstream that cannot be started and has stored instructions.
func instructed(name, text string) proxy.Upstream {
	kept := keptOffer(&upstream.Offer{Version: handshake, Instructions: text, Capabilities: json.RawMessage(`{"tools":{}}`)})
	return proxy.Upstream{
		Fingerprint: name, Spec: upstream.Spec{Name: name, Unusable: errors.New("on the shelf")},
		Store: upstream.Store{Load: func() ([]byte, error) { return kept, nil }},
	}
}

// The instructions of several servers share the client's limit evenly, in whole sentences, and
// the unused shares of short ones go to the others.
func TestInstructionsShareTheAllowance(t *testing.T) {
	const sentence = "Ask twice, 𝒂nd listen. "
	long := strings.TrimSpace(strings.Repeat(sentence, 200))
	s := start(t, options(instructed("first", long), instructed("brief", "Be kind."), instructed("last", long)))
	for _, era := range []string{handshake, stateless} {
		said := func(client string) string {
			c := attach(t, s, era)
			defer c.hangUp()
			text, _ := jsonrpc.String(jsonrpc.Get([]byte(opening(c, client, `{}`)), "instructions"))
			return text
		}
		const troubles = "# mcpschedd\nNot available now: first (on the shelf), brief (on the shelf), last (on the shelf).\nTell the user if it concerns the task.\n\n"
		if got, want := said("tester"), troubles+"# first\n"+long+"\n\n# brief\nBe kind.\n\n# last\n"+long; got != want {
			t.Errorf("%s: got %d bytes, want all %d", era, len(got), len(want))
		}
		got := said("claude-code")
		if n := len(utf16.Encode([]rune(got))); n > 4096 || n < 4096-3*len(sentence) {
			t.Errorf("%s: got %d characters, want hardly less than 4096", era, n)
		}
		got, told := strings.CutPrefix(got, troubles)
		if !told {
			t.Errorf("%s: got %.200q, want it to begin with what cannot be asked", era, got)
		}
		var shares []int
		for part := range strings.SplitSeq(got, "\n\n") {
			head, text, _ := strings.Cut(part, "\n")
			shares = append(shares, len(text))
			if head == "# brief" && text != "Be kind." || head != "# brief" && !strings.HasSuffix(text, "listen. […]") {
				t.Errorf("%s: got %s, and at its end %q", era, head, text[max(0, len(text)-40):])
			}
		}
		if len(shares) != 3 || shares[0]-shares[2] > len(sentence) || shares[2]-shares[0] > len(sentence) {
			t.Errorf("%s: got shares of %v bytes, want all three, the long ones alike", era, shares)
		}
	}
}

// For any number of servers and any texts, the instructions stay within the limit and are
// never cut within a character.
func TestInstructionsOfManyServers(t *testing.T) {
	for _, test := range []struct {
		servers int
		text    string
	}{
		{60, "No end of a sentence here but words and words and words and words and words and words and words"},
		{300, "One. Two. Three. Four. Five. Six. Seven. Eight. Nine."},
		{1000, "x"},
		{20, strings.Repeat("道生一。", 100)},
		{20, strings.Repeat("𝒂", 400)},
	} {
		var ups []proxy.Upstream
		for i := range test.servers {
			ups = append(ups, instructed(fmt.Sprintf("s%d", i), test.text))
		}
		c := attach(t, start(t, options(ups...)), handshake)
		text, _ := jsonrpc.String(jsonrpc.Get([]byte(opening(c, "claude-code", `{}`)), "instructions"))
		if n := len(utf16.Encode([]rune(text))); n > 4096 || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("%d servers: got %d characters: %.200q", test.servers, n, text)
		}
	}
}
