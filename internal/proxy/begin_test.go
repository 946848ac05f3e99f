package proxy_test

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

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

// keep returns a store in memory.
func keep() upstream.Store {
	var mu sync.Mutex
	var kept []byte
	return upstream.Store{
		Load: func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if kept == nil {
				return nil, fs.ErrNotExist
			}
			return kept, nil
		},
		Save: func(data []byte) error {
			mu.Lock()
			defer mu.Unlock()
			kept = data
			return nil
		},
	}
}
