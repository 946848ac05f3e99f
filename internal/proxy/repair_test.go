package proxy_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/mcptest"
)

// A text in another encoding, truncated within a character, and with half of a surrogate pair, and
// the text that clients decode.
const (
	misencoded = "caf\xe9 \xf0\x9f ok \xed\xa0\x80\xff"
	asRead     = "caf\ufffd \ufffd ok \ufffd" // U+FFFD for each run of invalid bytes
)

// Invalid UTF-8 in a server's text becomes U+FFFD, as it would in a client connected directly, and
// nothing else changes.
func TestMisencodedTextIsRepaired(t *testing.T) {
	o := mcptest.Options{
		Name:    "one",
		Tools:   []string{`{"name":"read","description":"` + misencoded + `","inputSchema":{"type":"object"}}`},
		Results: map[string]string{"read": said("")},
	}
	o.Results["read"] = strings.Replace(o.Results["read"], `""`, `"`+misencoded+`"`, 1)
	_, web := remote(t, o)
	process := child(t, mcptest.Options{Name: "one", Relay: relay(t, mcptest.New(o))})
	for name, up := range map[string]catalog.Upstream{"http": web, "stdio": process} {
		s := start(t, options(up))
		for _, era := range []string{handshake, stateless} {
			c := connect(t, s, era)
			for _, got := range []string{c.request("tools/list", ""), c.call("read", "")} {
				if !strings.Contains(got, `"`+asRead+`"`) {
					t.Errorf("%s, %s: got %s", name, era, got)
				}
			}
		}
	}
}
