package valuemodel_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

func TestHostOfACall(t *testing.T) {
	m := resolve(t, valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "WebFetch", valuemodel.Hints{})
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
	if got := m.HostOf(unknown); got != "upstream:up" {
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
			m := resolve(t, tt.u, tool, valuemodel.Hints{}, tt.rules...)
			if m.Host != tt.want || m.Sources["rate_limit_host"] != tt.source {
				t.Errorf("%s: %q: got %q by %q, want %q by %q", tt.name, tool, m.Host, m.Sources["rate_limit_host"], tt.want, tt.source)
			}
		}
	}
}

func TestDomains(t *testing.T) {
	const local = "local"
	tickets := valuemodel.Inferred{Host: "tickets.example", From: "TICKETS_URL"}
	tests := []struct {
		name string
		u    valuemodel.Upstream
		want []string
	}{
		{"a process", valuemodel.Upstream{}, []string{local}},
		{"a local provider", valuemodel.Upstream{Provider: "git"}, []string{local}},
		{"a url", valuemodel.Upstream{URL: "https://a.example/mcp"}, []string{"a.example"}},
		{"a url that is none", valuemodel.Upstream{Name: "up", URL: "https://${H}/"}, []string{"upstream:up"}},
		{"operator's provider", valuemodel.Upstream{Provider: "github"}, []string{"api.github.com"}},
		{"a trusted name", valuemodel.Upstream{Server: "github-mcp-server", Trust: true}, []string{"api.github.com"}},
		{"its own word", valuemodel.Upstream{Server: "github-mcp-server"}, []string{"api.github.com", local}},
		{"its own word for a local one", valuemodel.Upstream{Server: "secure-filesystem-server"}, []string{local}},
		{"a url of a service that has another", valuemodel.Upstream{URL: "https://hub.example", Provider: "github"}, []string{"hub.example", "api.github.com"}},
		{"a url of this machine", valuemodel.Upstream{URL: "http://localhost:8080"}, []string{"localhost:8080", local}},
		{"the same by number", valuemodel.Upstream{URL: "http://[::1]:8080"}, []string{"[::1]:8080", local}},
		{"the same, another number", valuemodel.Upstream{URL: "http://127.0.0.2"}, []string{"127.0.0.2", local}},
		{"no address at all", valuemodel.Upstream{URL: "http://0.0.0.0:9"}, []string{"0.0.0.0:9", local}},
		{"no address of the newer kind", valuemodel.Upstream{URL: "http://[::]:9"}, []string{"[::]:9", local}},
		{"an older one as a newer one", valuemodel.Upstream{URL: "http://[::ffff:127.0.0.1]"}, []string{"[::ffff:127.0.0.1]", local}},
		{"a short address", valuemodel.Upstream{URL: "http://127.1"}, []string{"127.1", local}},
		{"one number", valuemodel.Upstream{URL: "http://0x7f000001"}, []string{"0x7f000001", local}},
		{"another machine's address", valuemodel.Upstream{URL: "http://10.0.0.1"}, []string{"10.0.0.1"}},
		{"a name of localhost", valuemodel.Upstream{URL: "http://a.localhost"}, []string{"a.localhost", local}},
		{"a name that begins so", valuemodel.Upstream{URL: "http://localhost.example"}, []string{"localhost.example"}},
		{"the operator's domain", valuemodel.Upstream{Domain: "world", Server: "secure-filesystem-server"}, []string{"world", local}},
		{"the operator's domain, a host", valuemodel.Upstream{Domain: "a.example", Server: "secure-filesystem-server"}, []string{"a.example"}},
		{"the operator's word that it is elsewhere", valuemodel.Upstream{Remote: new(true)}, []string{local}},
		{"an inferred host only adds", valuemodel.Upstream{Inferred: tickets, Trust: true}, []string{local, "tickets.example"}},
		{"an inferred host, not trusted", valuemodel.Upstream{Inferred: tickets}, []string{local, "tickets.example"}},
		{"an inferred host of a service", valuemodel.Upstream{Inferred: tickets, Trust: true, Provider: "github"}, []string{"api.github.com", "tickets.example"}},
		{"the operator's domain, by url", valuemodel.Upstream{Domain: "world", URL: "https://a.example"}, []string{"world"}},
		{"the operator's domain, by url of this machine", valuemodel.Upstream{Domain: "world", URL: "http://127.0.0.1:9"}, []string{"world", local}},
		{"the operator's domain, a host, by url of this machine", valuemodel.Upstream{Domain: "a.example", URL: "http://127.0.0.1:9"}, []string{"a.example"}},
		{"the operator's domain, of a service", valuemodel.Upstream{Domain: "world", Provider: "github"}, []string{"world"}},
	}
	for _, tt := range tests {
		m := resolve(t, tt.u, "x", valuemodel.Hints{})
		if diff := cmp.Diff(tt.want, m.Domains); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		domains := strings.Join(tt.want, " ")
		if slow := domains != local && domains != "world "+local || tt.u.URL != "" || tt.u.Remote != nil; m.Writes(unknown).Remote != slow {
			t.Errorf("%s: its writes settle late: %v, want %v", tt.name, !slow, slow)
		}
		if m.Sources["domain"] == "" {
			t.Errorf("%s: no source", tt.name)
		}
		if tt.u.URL != "" && m.Sources["domain"] == "default" {
			t.Errorf("%s: got the source default, want the setting that names the host", tt.name)
		}
	}
}

// Reads at a remote service may be prefetched, and its writes settle late. The source of remote is
// the setting that decided.
func TestRemote(t *testing.T) {
	tickets := valuemodel.Inferred{Host: "tickets.example", From: "TICKETS_URL"}
	tests := []struct {
		name   string
		u      valuemodel.Upstream
		want   bool
		source string
	}{
		{"a process", valuemodel.Upstream{Name: "up"}, false, "default"},
		{"the operator's word", valuemodel.Upstream{Name: "up", Remote: new(true)}, true, "upstreams.up.remote"},
		{"the operator's no", valuemodel.Upstream{Name: "up", Remote: new(false), Provider: "github"}, false, "upstreams.up.remote"},
		{"at a known position", valuemodel.Upstream{Name: "up", Remote: new(true), Sources: map[string]string{"remote": "c:7"}}, true, "c:7"},
		{"a url", valuemodel.Upstream{Name: "up", URL: "https://a.example"}, true, "upstreams.up.url"},
		{"a url of this machine", valuemodel.Upstream{Name: "up", URL: "http://localhost:8080"}, false, "upstreams.up.url"},
		{"a url of this machine, a window on a service", valuemodel.Upstream{Name: "up", URL: "http://localhost:8080", Remote: new(true)}, true, "upstreams.up.remote"},
		{"a provider", valuemodel.Upstream{Name: "up", Provider: "github"}, true, "provider github"},
		{"a local provider", valuemodel.Upstream{Name: "up", Provider: "filesystem"}, false, "default"},
		{"its own word", valuemodel.Upstream{Name: "up", Server: "github-mcp-server"}, false, "default"},
		{"its own word, trusted", valuemodel.Upstream{Name: "up", Server: "github-mcp-server", Trust: true}, true, "provider github (server's own name)"},
		{"an inferred host", valuemodel.Upstream{Name: "up", Inferred: tickets, Trust: true}, true, "TICKETS_URL names tickets.example"},
		{"an inferred host, not trusted", valuemodel.Upstream{Name: "up", Inferred: tickets}, false, "default"},
		{"a domain that is a host", valuemodel.Upstream{Name: "up", Domain: "a.example"}, false, "default"},
	}
	for _, tt := range tests {
		m := resolve(t, tt.u, "x", valuemodel.Hints{})
		if m.Remote != tt.want || m.Sources["remote"] != tt.source {
			t.Errorf("%s: got %v by %q, want %v by %q", tt.name, m.Remote, m.Sources["remote"], tt.want, tt.source)
		}
		if m.Remote && !m.Writes(unknown).Remote {
			t.Errorf("%s: a write is not remote", tt.name)
		}
	}
}

func TestInferHost(t *testing.T) {
	env := func(pairs ...string) map[string]string {
		all := make(map[string]string)
		for pair := range slices.Chunk(pairs, 2) {
			all[pair[0]] = pair[1]
		}
		return all
	}
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want string // host, and the setting that names it
	}{
		{"nothing", []string{"-y", "@acme/tickets"}, env("TOKEN", "x"), ""},
		{"an address", nil, env("TICKETS_URL", "https://user:secret@Tickets.example/api"), "tickets.example TICKETS_URL"},
		{"a host", nil, env("TICKETS_HOST", "tickets.example"), "tickets.example TICKETS_HOST"},
		{"a host and a port", nil, env("TICKETS_HOST", "tickets.example:8443"), "tickets.example:8443 TICKETS_HOST"},
		{"an address by number", nil, env("DB_HOST", "10.0.0.5"), "10.0.0.5 DB_HOST"},
		{"a database", []string{"postgresql://u:p@db.example:5432/x"}, nil, "db.example an argument"},
		{"an option", []string{"--server", "tickets.example"}, nil, "tickets.example --server"},
		{"an option with its value", []string{"--url=https://tickets.example"}, nil, "tickets.example --url"},
		{"a variable of a container", []string{"run", "-e", "TICKETS_URL=https://tickets.example", "ghcr.io/acme/tickets"}, nil, "tickets.example TICKETS_URL"},
		{"a bridge", []string{"mcp-remote", "https://wiki.example/mcp"}, nil, "wiki.example an argument"},
		{"the same twice", []string{"https://tickets.example"}, env("A_URL", "https://tickets.example/x"), "tickets.example an argument"},
		{"two", nil, env("A_URL", "https://a.example", "B_URL", "https://b.example"), ""},
		{"this machine", nil, env("A_URL", "http://localhost:8080", "B_HOST", "127.0.0.1"), ""},
		{"this machine and another", nil, env("A_URL", "http://localhost:8080", "B_URL", "https://b.example"), "b.example B_URL"},
		{"a proxy", nil, env("HTTPS_PROXY", "http://proxy.example:3128", "NO_PROXY", "a.example"), ""},
		{"telemetry", nil, env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://o.example", "SENTRY_DSN", "https://s.example"), ""},
		{"a registry", []string{"--registry", "https://registry.example", "--index-url=https://pypi.example", "--from", "git+https://hub.example/a"}, env("npm_config_registry", "https://r.example"), ""},
		{"a registry beside it", []string{"--registry=https://registry.example"}, env("A_URL", "https://a.example"), "a.example A_URL"},
		{"a file", []string{"--server-config", "settings.json", "file:///x"}, env("SERVER", "a"), ""},
	}
	for _, tt := range tests {
		got := valuemodel.InferHost(tt.args, tt.env)
		if strings.TrimSpace(got.Host+" "+got.From) != tt.want {
			t.Errorf("%s: got %q by %q, want %q", tt.name, got.Host, got.From, tt.want)
		}
	}
}

// HostOf returns a host only for http URLs, in lower case and without user name, and returns the
// same for a URL of that host.
func FuzzHostOf(f *testing.F) {
	for _, seed := range []string{"https://u:p@A.example:443/", "http://[::1]:80", "http://[fe80::1%25eth0]/", "https://a:b:c", "http://@", "https://ä.example"} {
		f.Add(seed)
	}
	models, _ := valuemodel.Compile(nil)
	m := models.Resolve(valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "WebFetch", valuemodel.Hints{})
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
			t.Fatalf("%q: got %q, although it is no http URL", text, got)
		}
		if again := host((&url.URL{Scheme: u.Scheme, Host: got}).String()); again != got {
			t.Fatalf("%q: got %q, and %q for a URL of that host", text, got, again)
		}
	})
}
