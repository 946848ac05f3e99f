package valuemodel_test

import (
	"testing"
	"time"

	"mcpschedd/internal/valuemodel"
)

func TestVerdict(t *testing.T) {
	on := valuemodel.PrefetchSettings{Mode: "on", MaxAge: 30 * time.Second}
	up := valuemodel.Upstream{Name: "up"}
	files := valuemodel.Recognise(valuemodel.Settings{Command: "npx", Args: []string{"@modelcontextprotocol/server-filesystem"}})
	tickets := valuemodel.Inferred{Host: "tickets.example", From: "TICKETS_URL"}
	reads := rule("up/x", "c:1", valuemodel.Layer{Class: valuemodel.ReadOnly})
	kept := rule("up/x", "c:2", valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: time.Minute}})
	brief := rule("up/read_text_file", "c:3", valuemodel.Layer{Cost: valuemodel.Cost{Freshness: 10 * time.Second}})
	pure := rule("up/x", "c:4", valuemodel.Layer{Class: valuemodel.Pure})
	audit := rule("up/x", "c:7", valuemodel.Layer{Class: valuemodel.Pure, ValueClass: valuemodel.AuditOnly})
	differed := on
	differed.AnswersDiffer = true
	noStore, noBudget, proven := on, on, on
	proven.Proven = true
	noStore.NoStore, noBudget.NoBudget = true, true
	tests := []struct {
		name  string
		u     valuemodel.Upstream
		tool  string
		h     valuemodel.Hints
		rules []valuemodel.Rule
		use   valuemodel.PrefetchSettings
		want  string
	}{
		{"not known", up, "x", valuemodel.Hints{}, nil, on,
			`cached: no · prefetched: no, it counts as a write because nothing declares it read-only · to change that: side_effect_class = "read_only" in [tools."up/x"], if it is read-only`},
		{"not known, but by its name a write", up, "update_x", valuemodel.Hints{}, nil, on,
			`cached: no · prefetched: no, it counts as a write because nothing declares it read-only`},
		{"its own word", valuemodel.Upstream{Name: "up", Inferred: tickets}, "x", valuemodel.Hints{ReadOnly: yes}, nil, on,
			`cached: no · prefetched: no, it counts as a write because nothing declares it read-only · to change that: trust = true in [upstreams.up], if you trust the server's tool annotations (TICKETS_URL names tickets.example)`},
		{"its own word, trusted", valuemodel.Upstream{Name: "up", Inferred: tickets, Trust: true}, "x", valuemodel.Hints{ReadOnly: yes}, nil, on,
			`cached: only for identical calls in flight, as no freshness is set · prefetched: yes, served for up to 30 s, once the server's first few have been compared with results of calls (shadow_labels) · to cache results: freshness_ttl_s = 60 in [tools."up/x".cost_model], if a result stays valid that long`},
		{"its own word, trusted and tried", valuemodel.Upstream{Name: "up", Inferred: tickets, Trust: true}, "x", valuemodel.Hints{ReadOnly: yes}, []valuemodel.Rule{rule("up/x", "c:6", valuemodel.Layer{Cost: valuemodel.Cost{Freshness: time.Minute}})}, proven,
			`cached: 60 s · prefetched: yes, served for up to 60 s`},
		{"reads on this machine", up, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, on,
			`cached: 60 s · prefetched: no, except in turns that Claude Code's hooks report (set up by mcpschedd import --hooks), as any program on this machine may change what it reads · to change that: remote = true in [upstreams.up], if it reads from a remote service`},
		{"reads in another domain", valuemodel.Upstream{Name: "up", Domain: "h.test", Remote: new(false)}, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, on,
			`cached: 60 s · prefetched: no, any program on this machine may change what it reads · to change that: exclusive = true in [upstreams.up], if only this agent changes what it reads, and no person or other program does`},
		{"reads elsewhere", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, on,
			`cached: 60 s · prefetched: yes, served for up to 60 s`},
		{"no prefetching", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, valuemodel.PrefetchSettings{Mode: "off"},
			`cached: 60 s · prefetched: no, [enrichment] mode is "off"`},
		{"no prefetching, and no freshness", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{reads}, valuemodel.PrefetchSettings{Mode: "shadow", MaxAge: time.Second},
			`cached: only for identical calls in flight, as no freshness is set · prefetched: no, [enrichment] mode is "shadow" · to cache results: freshness_ttl_s = 60 in [tools."up/x".cost_model], if a result stays valid that long`},
		{"no memory", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, noStore,
			`cached: only for identical calls in flight, as [dedup] max_bytes is 0 · prefetched: no, [dedup] max_bytes is 0`},
		{"no budget", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, noBudget,
			`cached: 60 s · prefetched: no, [enrichment] prefetch_budget_tokens is 0`},
		{"no budget, and no tokens", up, "x", valuemodel.Hints{}, []valuemodel.Rule{audit}, noBudget,
			`cached: until a write · prefetched: yes, served until a write`},
		{"no age", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{reads}, valuemodel.PrefetchSettings{Mode: "on"},
			`cached: only for identical calls in flight, as no freshness is set · prefetched: no, [enrichment] max_age is 0 and no freshness is set · to cache results: freshness_ttl_s = 60 in [tools."up/x".cost_model], if a result stays valid that long`},
		{"no age, and not known", up, "x", valuemodel.Hints{}, nil, valuemodel.PrefetchSettings{Mode: "on"},
			`cached: no · prefetched: no, it counts as a write because nothing declares it read-only · to change that: side_effect_class = "read_only" in [tools."up/x"], if it is read-only`},
		{"exclusive", up, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, valuemodel.PrefetchSettings{Mode: "on", Exclusive: true},
			`cached: 60 s · prefetched: yes, served for up to 60 s`},
		{"recognised", valuemodel.Upstream{Name: "up", Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: []string{"path"}}, nil, on,
			`cached: only for identical calls in flight, as no freshness is set · prefetched: yes, served for up to 30 s · to cache results: freshness_ttl_s = 60 in [tools."up/read_text_file".cost_model], if a result stays valid that long`},
		{"recognised, kept", valuemodel.Upstream{Name: "up", Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: []string{"path"}}, []valuemodel.Rule{brief}, on,
			`cached: 10 s, while the file that path names is unchanged · prefetched: yes, served for up to 10 s`},
		{"pure", up, "x", valuemodel.Hints{}, []valuemodel.Rule{pure}, on,
			`cached: until a write · prefetched: yes, served until a write`},
		{"recognised, not connected yet", valuemodel.Upstream{Name: "up", Recognised: files}, "read_text_file", valuemodel.Hints{}, nil, on,
			`cached: no · prefetched: no, it counts as a write because its arguments are not known · to change that: call it once through the proxy`},
		{"recognised, not connected yet, and the operator says that it writes", valuemodel.Upstream{Name: "up", Recognised: files}, "read_text_file", valuemodel.Hints{}, []valuemodel.Rule{rule("read_text_file", "c:5", valuemodel.Layer{Class: valuemodel.MutatesLocal})}, on,
			`cached: no · prefetched: no, it counts as a write because it is declared mutates_local by c:5`},
		{"recognised, another argument", valuemodel.Upstream{Name: "up", Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: []string{"path", "shred"}}, nil, on,
			`cached: no · prefetched: no, it counts as a write because provider filesystem does not know its argument "shred" · to change that: provider = "filesystem" in [upstreams.up], if it is such a server`},
		{"recognised, and it says that it writes", valuemodel.Upstream{Name: "up", Recognised: files}, "list_directory", valuemodel.Hints{Arguments: []string{"path"}, Destructive: yes}, []valuemodel.Rule{reads}, on,
			`cached: no · prefetched: no, it counts as a write because its server's annotations say that it may write · to change that: provider = "filesystem" in [upstreams.up], if it is such a server`},
		{"writes", valuemodel.Upstream{Name: "up", Recognised: files}, "write_file", valuemodel.Hints{}, nil, on,
			`cached: no · prefetched: no, it counts as a write because it is declared mutates_local by provider filesystem (npm:@modelcontextprotocol/server-filesystem)`},
		{"not to be run early", valuemodel.Upstream{Name: "up", Provider: "github"}, "search_code", valuemodel.Hints{}, nil, on,
			`cached: only for identical calls in flight, as no freshness is set · prefetched: no, speculate = false is set by provider github, as a call that was not asked for could do harm`},
		{"barred", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{kept}, valuemodel.PrefetchSettings{Mode: "on", Barred: "its prefetch started a task"},
			`cached: 60 s · prefetched: no, it is barred for good: its prefetch started a task`},
		{"barred while only its own word counts", valuemodel.Upstream{Name: "up", Remote: new(true), Trust: true}, "x", valuemodel.Hints{ReadOnly: yes}, nil, differed,
			`cached: only for identical calls in flight, as no freshness is set · prefetched: no, it is barred: two equal calls gave different answers · to change that: side_effect_class = "read_only" in [tools."up/x"], if it is read-only`},
		{"barred, and the operator says what it does", valuemodel.Upstream{Name: "up", Remote: new(true), Trust: true}, "x", valuemodel.Hints{ReadOnly: yes}, []valuemodel.Rule{kept}, differed,
			`cached: 60 s · prefetched: yes, served for up to 60 s`},
		{"called again and again", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, []valuemodel.Rule{reads, rule("up/x", "c:6", valuemodel.Layer{FailFastAfter: 2, Volatile: new(true)})}, on,
			`cached: for a while after 2 identical results in a row · prefetched: no, it is marked volatile by c:6`},
		{"a statement that it does not take", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{Arguments: []string{"id"}}, []valuemodel.Rule{rule("up/x", "c:7", valuemodel.Layer{Classify: valuemodel.SQL})}, on,
			`cached: no, it has no argument for the statement that classify needs · prefetched: no, it has no argument for the statement that classify needs`},
		{"a file that it does not take", valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{Arguments: []string{"id"}}, []valuemodel.Rule{kept, rule("up/*", "c:8", valuemodel.Layer{Validate: valuemodel.Validate{File: "path"}})}, on,
			`cached: no, it has no argument "path", which validate names · prefetched: no, it has no argument "path", which validate names`},
		{"a shell", valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "Bash", valuemodel.Hints{}, nil, on,
			`cached: only for identical calls in flight, as no freshness is set, for calls whose command is read-only · prefetched: no, except in turns that Claude Code's hooks report (set up by mcpschedd import --hooks), as any program on this machine may change what it reads · to change that: exclusive = true in [upstreams.up], if only this agent changes what it reads, and no person or other program does`},
	}
	for _, tt := range tests {
		models, problems := valuemodel.Compile(tt.rules)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := models.Verdict(tt.u, tt.tool, tt.h, tt.use).String(); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// A tool is cacheable if its results may answer later calls: those of calls in flight alone do not count.
func TestCacheable(t *testing.T) {
	fresh := valuemodel.Cost{Freshness: time.Minute}
	for _, tt := range []struct {
		name                    string
		l                       valuemodel.Layer
		cacheable, prefetchable bool
	}{
		{"reads", valuemodel.Layer{Class: valuemodel.ReadOnly}, false, true},
		{"reads, and stays fresh", valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: fresh}, true, true},
		{"pure", valuemodel.Layer{Class: valuemodel.Pure}, true, true},
		{"reads in some calls", valuemodel.Layer{Classify: valuemodel.SQL}, false, true},
		{"reads in some calls, and stays fresh", valuemodel.Layer{Classify: valuemodel.SQL, Cost: fresh}, true, true},
		{"writes", valuemodel.Layer{Class: valuemodel.MutatesLocal, Cost: fresh}, false, false},
	} {
		m := resolve(t, valuemodel.Upstream{Name: "up", Remote: new(true)}, "x", valuemodel.Hints{}, rule("up/x", "c:1", tt.l))
		v := m.Verdict(valuemodel.PrefetchSettings{Mode: "on", MaxAge: time.Second})
		if v.Cacheable != tt.cacheable || v.Prefetchable != tt.prefetchable {
			t.Errorf("%s: cacheable %v, prefetchable %v, want %v and %v", tt.name, v.Cacheable, v.Prefetchable, tt.cacheable, tt.prefetchable)
		}
	}
}
