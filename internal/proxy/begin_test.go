package proxy_test

import (
	"io/fs"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/upstream"
)

// While a server starts, its declared capabilities are served without any items.
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
