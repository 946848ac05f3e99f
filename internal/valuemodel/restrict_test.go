package valuemodel_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/valuemodel"
)

var yes, no = new(true), new(false)

func TestClassOfATool(t *testing.T) {
	type hints = valuemodel.Hints
	const (
		readOnly      = valuemodel.ReadOnly
		indeterminate = valuemodel.Indeterminate
		external      = valuemodel.MutatesExternal
	)
	trusted := valuemodel.Upstream{Name: "up", Trust: true}
	github := valuemodel.Upstream{Name: "up", Trust: true, Server: "GitHub-MCP-Server"}
	claims := valuemodel.Upstream{Name: "up", Server: "github-mcp-server"}
	stated := valuemodel.Upstream{Name: "up", Provider: "github"}
	const named = "provider github (server's own name)"
	tests := []struct {
		name   string
		u      valuemodel.Upstream
		tool   string
		h      hints
		rules  []valuemodel.Rule
		want   valuemodel.Class
		source string
	}{
		{"not known", valuemodel.Upstream{Name: "up"}, "x", hints{}, nil, indeterminate, "default"},
		{"not known, trusted", trusted, "x", hints{}, nil, indeterminate, "default"},
		{"untrusted, says it reads", valuemodel.Upstream{Name: "up"}, "x", hints{ReadOnly: yes}, nil, indeterminate, "default"},
		{"untrusted, says it writes", valuemodel.Upstream{Name: "up"}, "x", hints{ReadOnly: no}, nil, indeterminate, "annotation"},
		{"trusted, says it reads", trusted, "x", hints{ReadOnly: yes}, nil, readOnly, "annotation"},
		{"trusted, reads and does not destroy", trusted, "x", hints{ReadOnly: yes, Destructive: no}, nil, readOnly, "annotation"},
		{"trusted, reads and destroys", trusted, "x", hints{ReadOnly: yes, Destructive: yes}, nil, indeterminate, "annotation"},
		{"trusted, does not destroy", trusted, "x", hints{Destructive: no}, nil, indeterminate, "default"},
		{"a name that its name makes reading", trusted, "get_x", hints{}, nil, indeterminate, "default"},

		{"by an untrusted name, reads", claims, "get_me", hints{ReadOnly: yes}, nil, indeterminate, "default"},
		{"by an untrusted name, writes", claims, "create_issue", hints{ReadOnly: yes}, nil, external, named},
		{"by a trusted name, reads", github, "get_me", hints{}, nil, readOnly, named},
		{"by a trusted name, and it says it writes", github, "get_me", hints{ReadOnly: no}, nil, indeterminate, "annotation"},
		{"by a trusted name, and it says it destroys", github, "get_me", hints{Destructive: yes}, nil, indeterminate, "annotation"},
		{"by a trusted name, writes, and it says it reads", github, "create_issue", hints{ReadOnly: yes}, nil, external, named},
		{"by a trusted name, not known, and it says it reads", github, "x", hints{ReadOnly: yes}, nil, readOnly, "annotation"},

		{"operator's provider, reads", stated, "get_me", hints{}, nil, readOnly, "provider github"},
		{"operator's provider beats the hint", stated, "get_me", hints{ReadOnly: no, Destructive: yes}, nil, readOnly, "provider github"},
		{"operator's provider, not known", stated, "x", hints{ReadOnly: yes}, nil, indeterminate, "default"},
		{"operator's provider beats the server's name", valuemodel.Upstream{Name: "up", Provider: "github", Server: "playwright"}, "get_me", hints{}, nil, readOnly, "provider github"},
		{"operator's provider that there is not", valuemodel.Upstream{Name: "up", Provider: "nothing", Server: "github-mcp-server", Trust: true}, "get_me", hints{}, nil, indeterminate, "default"},

		{"stateful, by an untrusted name", valuemodel.Upstream{Name: "up", Server: "playwright"}, "x", hints{}, nil, indeterminate, "provider playwright (server's own name)"},
		{"stateful, trusted, says it reads", valuemodel.Upstream{Name: "up", Server: "playwright", Trust: true}, "x", hints{ReadOnly: yes}, nil, indeterminate, "provider playwright (server's own name)"},
		{"stateful, operator's word", valuemodel.Upstream{Name: "up", Provider: "playwright"}, "browser_snapshot", hints{ReadOnly: yes}, nil, indeterminate, "provider playwright"},
		{"stateful, writes", valuemodel.Upstream{Name: "up", Provider: "playwright"}, "browser_click", hints{}, nil, external, "provider playwright"},

		{"a client's tool elsewhere", valuemodel.Upstream{Name: "up", Trust: true}, "Read", hints{}, nil, indeterminate, "default"},
		{"a client's tool", valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "Read", hints{}, nil, readOnly, "provider claude-code"},

		{"operator loosens what is not known", claims, "x", hints{ReadOnly: no, Destructive: yes}, []valuemodel.Rule{rule("up/x", "c:1", valuemodel.Layer{Class: readOnly})}, readOnly, "c:1"},
		{"operator loosens what writes", stated, "create_issue", hints{}, []valuemodel.Rule{rule("*", "c:1", valuemodel.Layer{Class: readOnly})}, readOnly, "c:1"},
		{"operator tightens", stated, "get_me", hints{}, []valuemodel.Rule{rule("*", "c:1", valuemodel.Layer{Class: external})}, external, "c:1"},
		{"operator loosens what is stateful", valuemodel.Upstream{Name: "up", Provider: "playwright"}, "browser_snapshot", hints{}, []valuemodel.Rule{rule("*", "c:1", valuemodel.Layer{Class: readOnly})}, readOnly, "c:1"},
	}
	for _, tt := range tests {
		m := resolve(t, tt.u, tt.tool, tt.h, tt.rules...)
		if m.Class != tt.want || m.Sources["side_effect_class"] != tt.source {
			t.Errorf("%s: got %s by %q, want %s by %q", tt.name, m.Class, m.Sources["side_effect_class"], tt.want, tt.source)
		}
		if servers := tt.source == "annotation" || tt.source == named; m.Class.Reads() && m.Vouched == servers {
			t.Errorf("%s: got vouched %v for a read-only class from %q", tt.name, m.Vouched, tt.source)
		}
	}
}

// The table that an untrusted server's own name selects may only restrict or add costs. It never
// makes answers cacheable or calls prefetchable.
func TestAnUnvouchedNameLoosensNothing(t *testing.T) {
	reads := rule("*", "c:1", valuemodel.Layer{Class: valuemodel.ReadOnly})
	files := valuemodel.Upstream{Name: "up", Server: "secure-filesystem-server"}
	m := resolve(t, files, "read_file", valuemodel.Hints{}, reads)
	if m.Validate.File != "" || m.ValueClass != valuemodel.Critical {
		t.Errorf("got validate %q, value %s", m.Validate.File, m.ValueClass)
	}
	files.Trust = true
	if m := resolve(t, files, "read_file", valuemodel.Hints{}); m.Validate.File != "path" {
		t.Errorf("trusted: got validate %q", m.Validate.File)
	}

	base := valuemodel.Upstream{Name: "up", Server: "dbhub mcp server"}
	if m := resolve(t, base, "execute_sql", valuemodel.Hints{}); m.Classify != "" {
		t.Errorf("got classify %q", m.Classify)
	}
	base.Trust = true
	if m := resolve(t, base, "execute_sql", valuemodel.Hints{}); m.Classify != valuemodel.SQL {
		t.Errorf("trusted: got classify %q", m.Classify)
	}
	if m := resolve(t, base, "execute_sql", valuemodel.Hints{ReadOnly: no}); m.Classify != "" {
		t.Errorf("denied by a hint: got classify %q", m.Classify)
	}
	base.Trust, base.Provider = false, "postgres"
	if m := resolve(t, base, "execute_sql", valuemodel.Hints{ReadOnly: no}); m.Classify != valuemodel.SQL {
		t.Errorf("operator's word: got classify %q", m.Classify)
	}

	web := valuemodel.Upstream{Name: "up", Server: "mcp-fetch", URL: "https://web.example/mcp"}
	if m := resolve(t, web, "fetch", valuemodel.Hints{}); m.URLArgument != "" || m.Disclosure != valuemodel.ThirdParty {
		t.Errorf("got url argument %q, disclosure %s", m.URLArgument, m.Disclosure)
	}
}

// Without the operator, no name and no annotations of a server make a tool read-only or
// prefetchable.
func TestOnlyTheOperatorLoosens(t *testing.T) {
	var servers, names []string
	for _, p := range allProviders() {
		servers = append(servers, p.Servers...)
		for tool := range p.Tools {
			names = append(names, tool)
		}
	}
	slices.Sort(names)
	models, _ := valuemodel.Compile(nil)
	hint := rapid.SampledFrom([]*bool{nil, yes, no})
	rapid.Check(t, func(t *rapid.T) {
		u := valuemodel.Upstream{
			Name:   "up",
			URL:    rapid.SampledFrom([]string{"", "https://a.example"}).Draw(t, "url"),
			Server: rapid.OneOf(rapid.SampledFrom(servers), rapid.String()).Draw(t, "server"),
		}
		tool := rapid.OneOf(rapid.SampledFrom(names), rapid.String()).Draw(t, "tool")
		h := valuemodel.Hints{ReadOnly: hint.Draw(t, "readOnly"), Destructive: hint.Draw(t, "destructive")}
		m := models.Resolve(u, tool, h)
		args := func(string) []byte { return []byte(`"ls"`) }
		if m.Class.Reads() || m.ClassOf(args, slices.Values([]string{"command"})).Reads() || *m.Speculate || *m.InvalidatesOnly || m.Validate.File != "" || m.Cost.Freshness != 0 || m.Cost.Dollars != 0 ||
			m.Host != "a.example" && m.Host != "upstream:up" {
			t.Fatalf("got %+v", m.Layer)
		}
	})
}

// For a trusted server the most restrictive of annotation and provider's table counts.
func TestTheMostRestrictiveCounts(t *testing.T) {
	rank := map[valuemodel.Class]int{
		valuemodel.Pure: 1, valuemodel.ReadOnly: 2, valuemodel.Indeterminate: 3,
		valuemodel.MutatesLocal: 4, valuemodel.MutatesExternal: 5,
	}
	models, _ := valuemodel.Compile(nil)
	for _, p := range allProviders() {
		for _, server := range p.Servers {
			seen := map[string]bool{} // test one tool of each kind
			for tool, said := range p.Tools {
				kind := fmt.Sprint(said.Class, said.Speculate != nil, said.Disclosure, said.Volatile != nil)
				if seen[kind] {
					continue
				}
				seen[kind] = true
				for _, h := range []valuemodel.Hints{{}, {ReadOnly: yes}, {ReadOnly: no}, {Destructive: yes}, {ReadOnly: yes, Destructive: yes}} {
					least := rank[said.Class]
					if h.ReadOnly == no || h.Destructive == yes || p.Stateful {
						least = max(least, rank[valuemodel.Indeterminate])
					}
					m := models.Resolve(valuemodel.Upstream{Name: "up", Server: server, Trust: true}, tool, h)
					if rank[m.Class] != least {
						t.Errorf("%s/%s: provider %s, hints %v: got %s", p.Name, tool, said.Class, h, m.Class)
					}
					if said.Speculate != nil && !*said.Speculate && *m.Speculate || p.Stateful && *m.Speculate {
						t.Errorf("%s/%s: speculate is loosened", p.Name, tool)
					}
					if said.Disclosure == valuemodel.ThirdParty && m.Disclosure != valuemodel.ThirdParty {
						t.Errorf("%s/%s: disclosure is loosened", p.Name, tool)
					}
					if said.Volatile != nil && *said.Volatile && !*m.Volatile {
						t.Errorf("%s/%s: volatile is loosened", p.Name, tool)
					}
				}
			}
		}
	}
}

// Only the operator can override a layer that forbids prefetching.
func TestSpeculate(t *testing.T) {
	reads := valuemodel.Layer{Class: valuemodel.ReadOnly}
	tuned, allowed := rule("up/get-env", "tuned", valuemodel.Layer{Speculate: no}), rule("up/*", "c:1", valuemodel.Layer{Class: valuemodel.ReadOnly, Speculate: yes})
	tuned.Tuned = true
	tests := []struct {
		name   string
		u      valuemodel.Upstream
		tool   string
		rules  []valuemodel.Rule
		want   bool
		source string
	}{
		{"reads", valuemodel.Upstream{Name: "up"}, "x", []valuemodel.Rule{rule("*", "c:1", reads)}, true, "default"},
		{"not known", valuemodel.Upstream{Name: "up"}, "x", nil, false, "default"},
		{"not known, operator's word", valuemodel.Upstream{Name: "up"}, "x", []valuemodel.Rule{rule("*", "c:1", valuemodel.Layer{Speculate: yes})}, false, "default"},
		{"writes, operator's word", valuemodel.Upstream{Name: "up", Provider: "github"}, "create_issue", []valuemodel.Rule{rule("*", "c:1", valuemodel.Layer{Speculate: yes})}, false, "provider github"},
		{"provider denies", valuemodel.Upstream{Name: "up", Provider: "everything"}, "get-env", nil, false, "provider everything"},
		{"operator overrules by a glob", valuemodel.Upstream{Name: "up", Provider: "everything"}, "get-env", []valuemodel.Rule{rule("up/get-en?", "c:1", valuemodel.Layer{Speculate: yes})}, false, "provider everything"},
		{"operator overrules", valuemodel.Upstream{Name: "up", Provider: "everything"}, "get-env", []valuemodel.Rule{rule("get-env", "c:1", valuemodel.Layer{Speculate: yes})}, true, "c:1"},
		{"operator overrules what is stateful", valuemodel.Upstream{Name: "up", Provider: "playwright"}, "x", []valuemodel.Rule{rule("up/x", "c:1", valuemodel.Layer{Class: valuemodel.ReadOnly, Speculate: yes})}, true, "c:1"},
		{"starts what is billed", valuemodel.Upstream{Name: "up", Provider: "neon"}, "get_database_tables", nil, false, "provider neon"},
		{"operator denies", valuemodel.Upstream{Name: "up", Provider: "github"}, "get_me", []valuemodel.Rule{rule("*", "c:1", valuemodel.Layer{Speculate: no})}, false, "c:1"},
		{"stateful", valuemodel.Upstream{Name: "up", Provider: "playwright"}, "x", []valuemodel.Rule{rule("*", "c:1", reads)}, false, "provider playwright"},
		{"operator overrules the tune command by a glob", valuemodel.Upstream{Name: "up"}, "get-env", []valuemodel.Rule{allowed, tuned}, true, "c:1"},
		{"operator overrules the tune command and not the provider", valuemodel.Upstream{Name: "up", Provider: "everything"}, "get-env", []valuemodel.Rule{allowed, tuned}, false, "tuned"},
	}
	for _, tt := range tests {
		m := resolve(t, tt.u, tt.tool, valuemodel.Hints{}, tt.rules...)
		if *m.Speculate != tt.want || m.Sources["speculate"] != tt.source {
			t.Errorf("%s: got %v by %q, want %v by %q", tt.name, *m.Speculate, m.Sources["speculate"], tt.want, tt.source)
		}
	}
}

// A rule that forbids prefetching has priority over every rule that does not name the tool more
// exactly, in whatever order they are.
func TestNoToGuessingIsKept(t *testing.T) {
	reads := rule("*", "r", valuemodel.Layer{Class: valuemodel.ReadOnly})
	tests := []struct {
		no, yes string
		want    bool
	}{
		{"*", "up/get_*", false}, {"up/get_*", "*", false}, {"up/*", "up/get_thing", true}, {"*", "get_thing", true},
		{"get_thing", "up/get_thing", true}, {"up/get_thing", "get_thing", false},
		{"get_thing", "get_thing", false}, {"up/get_thing", "up/get_thing", false}, {"get_thing", "up/get_*", false},
	}
	for _, tt := range tests {
		denies, allows := rule(tt.no, "no", valuemodel.Layer{Speculate: no}), rule(tt.yes, "yes", valuemodel.Layer{Speculate: yes})
		for _, rules := range [][]valuemodel.Rule{{reads, denies, allows}, {reads, allows, denies}} {
			m := resolve(t, valuemodel.Upstream{Name: "up"}, "get_thing", valuemodel.Hints{}, rules...)
			source := map[bool]string{true: "yes", false: "no"}[tt.want]
			if *m.Speculate != tt.want || m.Sources["speculate"] != source {
				t.Errorf("no for %s, yes for %s: got %v by %q, want %v", tt.no, tt.yes, *m.Speculate, m.Sources["speculate"], tt.want)
			}
		}
	}
}

// The freshness, host and url argument in a provider's table apply only if the operator selected
// the provider or trusts the server.
func TestAClaimedProviderSetsNoFreshnessNorHost(t *testing.T) {
	reads := rule("*", "c:1", valuemodel.Layer{Class: valuemodel.ReadOnly})
	for _, url := range []string{"", "https://a.example"} {
		docs := valuemodel.Upstream{Name: "up", Server: "mcp-grafana", URL: url}
		m := resolve(t, docs, "get_doc", valuemodel.Hints{}, reads)
		if m.Cost.Freshness != 0 || m.Host == "grafana.com" || m.URLArgument != "" || m.Disclosure != valuemodel.ThirdParty {
			t.Errorf("%q: got %+v", url, m.Layer)
		}
		docs.Trust = true
		if m := resolve(t, docs, "get_doc", valuemodel.Hints{}, reads); m.Cost.Freshness == 0 || m.Host != "grafana.com" || m.URLArgument != "url" {
			t.Errorf("%q, trusted: got %+v", url, m.Layer)
		}
	}
}
