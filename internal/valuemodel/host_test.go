package valuemodel_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

func TestHostOfACall(t *testing.T) {
	m := resolve(t, valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "WebFetch", valuemodel.Hints{}, valuemodel.Layer{})
	tests := []struct{ url, want string }{
		{"https://Docs.Example/a?b#c", "docs.example"},
		{"http://docs.example:80/", "docs.example"},
		{"https://docs.example:443", "docs.example"},
		{"https://docs.example:80", "docs.example:80"},
		{"HTTPS://docs.example:8443", "docs.example:8443"},
		{"https://user:secret@docs.example/", "docs.example"},
		{"https://docs.example./", "docs.example"},
		{"http://[::1]:8080/", "[::1]:8080"},
		{"http://[2001:DB8::1]/", "[2001:db8::1]"},
		{"http://127.0.0.1:9", "127.0.0.1:9"},
		{"ftp://docs.example", "upstream:up"},
		{"file:///etc/passwd", "upstream:up"},
		{"docs.example/a", "upstream:up"},
		{"https://", "upstream:up"},
		{"https:docs.example", "upstream:up"},
		{"https://a b/", "upstream:up"},
		{"https://%zz/", "upstream:up"},
		{"https://" + strings.Repeat("a", 300), "upstream:up"},
		{"", "upstream:up"},
	}
	for _, tt := range tests {
		got := m.HostOf(func(name string) []byte { return []byte(`"` + tt.url + `"`) })
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.url, got, tt.want)
		}
	}
	if got := m.HostOf(nil); got != "upstream:up" {
		t.Errorf("no url: got %q", got)
	}
}

func TestHostOfATool(t *testing.T) {
	limit := []valuemodel.Rule{rule("up/*", "c:1", valuemodel.Layer{Host: "mine.example"})}
	tests := []struct {
		name         string
		u            valuemodel.Upstream
		rules        []valuemodel.Rule
		want, source string
	}{
		{"a process", valuemodel.Upstream{Name: "up"}, nil, "upstream:up", "default"},
		{"a url", valuemodel.Upstream{Name: "up", URL: "https://u:p@Wiki.example:443/mcp"}, nil, "wiki.example", "upstreams.up.url"},
		{"a url that is none", valuemodel.Upstream{Name: "up", URL: "https://${HOST}/mcp"}, nil, "upstream:up", "default"},
		{"operator's provider", valuemodel.Upstream{Name: "up", Provider: "github"}, nil, "api.github.com", "provider github"},
		{"operator's provider over the url", valuemodel.Upstream{Name: "up", Provider: "github", URL: "https://wiki.example"}, nil, "api.github.com", "provider github"},
		{"a service that is installed elsewhere too", valuemodel.Upstream{Name: "up", Provider: "gitlab", URL: "https://gitlab.corp.example/api/v4/mcp"}, nil, "gitlab.corp.example", "upstreams.up.url"},
		{"the same as a process", valuemodel.Upstream{Name: "up", Provider: "gitlab"}, nil, "gitlab.com", "provider gitlab"},
		{"its own word", valuemodel.Upstream{Name: "up", Server: "github-mcp-server"}, nil, "upstream:up", "default"},
		{"its own word, trusted, a process", valuemodel.Upstream{Name: "up", Server: "github-mcp-server", Trust: true}, nil, "api.github.com", "provider github (server's own name)"},
		{"its own word does not lead out of a host's limits", valuemodel.Upstream{Name: "up", Server: "github-mcp-server", URL: "https://wiki.example"}, nil, "wiki.example", "upstreams.up.url"},
		{"its own word, trusted", valuemodel.Upstream{Name: "up", Server: "github-mcp-server", URL: "https://wiki.example", Trust: true}, nil, "api.github.com", "provider github (server's own name)"},
		{"a rule", valuemodel.Upstream{Name: "up", Provider: "github", URL: "https://wiki.example"}, limit, "mine.example", "c:1"},
	}
	for _, tt := range tests {
		for _, tool := range []string{"get_me", ""} {
			m := resolve(t, tt.u, tool, valuemodel.Hints{}, valuemodel.Layer{}, tt.rules...)
			if m.Host != tt.want || m.Sources["rate_limit_host"] != tt.source {
				t.Errorf("%s: %q: got %q by %q, want %q by %q", tt.name, tool, m.Host, m.Sources["rate_limit_host"], tt.want, tt.source)
			}
		}
	}
}

func TestDomains(t *testing.T) {
	local := valuemodel.Domain{Name: "local"}
	at := func(name string) valuemodel.Domain { return valuemodel.Domain{Name: name, Remote: true} }
	tests := []struct {
		name string
		u    valuemodel.Upstream
		want []valuemodel.Domain
	}{
		{"a process", valuemodel.Upstream{}, []valuemodel.Domain{local}},
		{"a local provider", valuemodel.Upstream{Provider: "git"}, []valuemodel.Domain{local}},
		{"a url", valuemodel.Upstream{URL: "https://a.example/mcp"}, []valuemodel.Domain{at("a.example")}},
		{"a url that is none", valuemodel.Upstream{Name: "up", URL: "https://${H}/"}, []valuemodel.Domain{at("upstream:up")}},
		{"operator's provider", valuemodel.Upstream{Provider: "github"}, []valuemodel.Domain{at("api.github.com")}},
		{"a trusted name", valuemodel.Upstream{Server: "github-mcp-server", Trust: true}, []valuemodel.Domain{at("api.github.com")}},
		{"its own word", valuemodel.Upstream{Server: "github-mcp-server"}, []valuemodel.Domain{at("api.github.com"), local}},
		{"its own word for a local one", valuemodel.Upstream{Server: "secure-filesystem-server"}, []valuemodel.Domain{local}},
		{"a url of a service that has another", valuemodel.Upstream{URL: "https://hub.example", Provider: "github"}, []valuemodel.Domain{at("hub.example"), at("api.github.com")}},
		{"a url of this machine", valuemodel.Upstream{URL: "http://localhost:8080"}, []valuemodel.Domain{at("localhost:8080"), local}},
		{"the same by number", valuemodel.Upstream{URL: "http://[::1]:8080"}, []valuemodel.Domain{at("[::1]:8080"), local}},
		{"the same, another number", valuemodel.Upstream{URL: "http://127.0.0.2"}, []valuemodel.Domain{at("127.0.0.2"), local}},
		{"no address at all", valuemodel.Upstream{URL: "http://0.0.0.0:9"}, []valuemodel.Domain{at("0.0.0.0:9"), local}},
		{"no address of the newer kind", valuemodel.Upstream{URL: "http://[::]:9"}, []valuemodel.Domain{at("[::]:9"), local}},
		{"an older one as a newer one", valuemodel.Upstream{URL: "http://[::ffff:127.0.0.1]"}, []valuemodel.Domain{at("[::ffff:127.0.0.1]"), local}},
		{"a short address", valuemodel.Upstream{URL: "http://127.1"}, []valuemodel.Domain{at("127.1"), local}},
		{"one number", valuemodel.Upstream{URL: "http://0x7f000001"}, []valuemodel.Domain{at("0x7f000001"), local}},
		{"another machine's address", valuemodel.Upstream{URL: "http://10.0.0.1"}, []valuemodel.Domain{at("10.0.0.1")}},
		{"a name of localhost", valuemodel.Upstream{URL: "http://a.localhost"}, []valuemodel.Domain{at("a.localhost"), local}},
		{"a name that begins so", valuemodel.Upstream{URL: "http://localhost.example"}, []valuemodel.Domain{at("localhost.example")}},
		{"the operator's domain", valuemodel.Upstream{Domain: "world", Server: "secure-filesystem-server"}, []valuemodel.Domain{{Name: "world"}}},
		{"the operator's domain, by url", valuemodel.Upstream{Domain: "world", URL: "https://a.example"}, []valuemodel.Domain{at("world")}},
		{"the operator's domain, of a service", valuemodel.Upstream{Domain: "world", Provider: "github"}, []valuemodel.Domain{at("world")}},
	}
	for _, tt := range tests {
		m := resolve(t, tt.u, "x", valuemodel.Hints{}, valuemodel.Layer{})
		if diff := cmp.Diff(tt.want, m.Domains); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if m.Sources["domain"] == "" {
			t.Errorf("%s: no source", tt.name)
		}
	}
}

// A host is told only of http urls, is in lower case, names no one who logs in,
// and is told again of a url made of it.
func FuzzHostOf(f *testing.F) {
	for _, seed := range []string{"https://u:p@A.example:443/", "http://[::1]:80", "http://[fe80::1%25eth0]/", "https://a:b:c", "http://@", "https://ä.example"} {
		f.Add(seed)
	}
	models, _ := valuemodel.Compile(nil)
	m := models.Resolve(valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "WebFetch", valuemodel.Hints{}, valuemodel.Layer{})
	host := func(text string) string { return m.HostOf(func(string) []byte { return quoted(text) }) }
	f.Fuzz(func(t *testing.T, text string) {
		got := host(text)
		if got == "upstream:up" {
			return
		}
		if got == "" || got != strings.ToLower(got) || strings.Contains(got, "@") && !strings.Contains(got, "%") {
			t.Fatalf("%q: got %q", text, got)
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q: got %q of no http url", text, got)
		}
		if again := host((&url.URL{Scheme: u.Scheme, Host: got}).String()); again != got {
			t.Fatalf("%q: got %q, and %q of it again", text, got, again)
		}
	})
}
