package valuemodel

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
)

// tableFiles has one file per provider. The classes were assigned by hand, from the
// descriptions and schemas of the tools, as the annotations of servers err both ways. In
// doubt a tool is indeterminate.
//
// An edge matches arguments only if equal values are certain to name the same object:
// only the issue number if a repository can have two names, and nothing if identifiers
// have several spellings.
//
//go:embed models/*.toml
var tableFiles embed.FS

// table is the content of a file, with a field per key. A name that begins with @ stands
// for the tools of a set: "@set" of the same file, or "@provider.set" of another. It has more
// than 15 fields because it embeds the provider.
type table struct {
	Provider
	Include []string            // providers or sets of which it also has the tools
	ShownIn []string            `toml:"shown_in"` // tools of other servers; its writes invalidate their results
	Sets    map[string][]string // name → tools

	Rows map[Class][]toolRow `toml:"tools"`

	FollowUp []followUpRow `toml:"follow_up"`

	resolved *Provider // cached result; providers that include this one share its edges
}

// toolRow is a row that describes several tools: a layer, with a field per key that is
// written differently in the file. It has more than 15 fields because it embeds the layer.
type toolRow struct {
	Layer
	Names       []string
	Set         string              // name of the set that the tools belong to
	FreshnessS  float64             `toml:"freshness_ttl_s"`
	Validate    string              `toml:"validate"` // Validate.File
	URLArgument string              `toml:"url_argument"`
	Chars       [2]float64          // size of a result in characters, from the corpus: median, maximum
	Invalidates []string            `toml:"invalidates"` // tools and sets
	Same        map[string][]string // argument → tools with results that are stale only for the same value
}

// followUpRow is a follow-up of several tools; its Max is 3.
type followUpRow struct {
	FollowUp
	After []string
}

// summary is what is needed of all tables before a single one is parsed. A table is
// parsed on first use: parsing all of them would delay the start of the program by 20 ms
// and keep memory. TestSummary generates the file from the tables.
type summary struct {
	Servers    map[string]string   // a server's own name → provider
	References map[string]string   // reference, in the form of [Recognise] → provider
	Requires   map[string][]string // provider → flags of which one must be given
	Flags      []string            // that some table mentions
	Shareable  map[string]Sharing  // reference → conditions for sharing the server
	Edges      []string            // distinct edges of all tools: the tool and the matched arguments, separated by spaces
}

//go:embed summary.json
var summaryFile []byte

var loadSummary = sync.OnceValue(func() (s summary) {
	if err := json.Unmarshal(summaryFile, &s); err != nil {
		panic(err) // embedded, and a test decodes it
	}
	return s
})

// edges returns the edges of all tables.
func (s summary) edges() []Edge {
	all := make([]Edge, len(s.Edges))
	for i, text := range s.Edges {
		words := strings.Fields(text)
		all[i] = Edge{Tool: words[0], Match: words[1:]}
	}
	return all
}

// tableSet maps providers to the tables parsed so far.
type tableSet map[string]*table

var tables = struct {
	mu   sync.Mutex
	read tableSet
}{read: make(tableSet)}

// ProviderNamed returns the provider with the given name.
func ProviderNamed(name string) (Provider, bool) {
	if _, err := tableFiles.Open(fileOf(name)); err != nil {
		return Provider{}, false
	}
	tables.mu.Lock()
	defer tables.mu.Unlock()
	return tables.read.provider(name), true
}

func fileOf(provider string) string { return "models/" + provider + ".toml" }

// table returns the parsed table of a provider. Files are embedded and parsed by a test,
// so it panics on errors, unknown keys among them.
func (all tableSet) table(name string) *table {
	if t := all[name]; t != nil {
		return t
	}
	text, err := tableFiles.ReadFile(fileOf(name))
	if err != nil {
		panic(err)
	}
	t := new(table)
	meta, err := toml.Decode(string(text), t)
	if err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		panic(fmt.Errorf("%s: unknown key %s", name, unknown[0]))
	}
	all[name] = t
	return t
}

// provider resolves the sets and includes of a table.
func (all tableSet) provider(name string) Provider {
	t := all.table(name)
	if t.resolved != nil {
		return *t.resolved
	}
	p := t.Provider
	p.Name, p.Tools, p.Arguments = name, make(map[string]Layer), make(map[string][]string)
	all.include(p, t.Include)
	maps.Copy(p.Arguments, t.Arguments)
	for class, rows := range t.Rows {
		for _, r := range rows {
			l := r.layer(class)
			l.Invalidates = all.rowEdges(name, r, class)
			for _, tool := range r.Names {
				if _, twice := p.Tools[tool]; twice {
					panic(fmt.Errorf("provider %s: tool %q twice", name, tool))
				}
				p.Tools[tool] = l
			}
		}
	}
	for _, f := range t.FollowUp {
		f.Max = 3
		for _, tool := range f.After {
			l := p.Tools[tool]
			l.FollowUps = append(slices.Clip(l.FollowUps), f.FollowUp)
			p.Tools[tool] = l
		}
	}
	t.resolved = &p
	return p
}

// include adds the tools of other providers, or of sets of them, to p.
func (all tableSet) include(p Provider, others []string) {
	for _, from := range others {
		owner, _, isSet := strings.Cut(strings.TrimPrefix(from, "@"), ".")
		included := all.provider(owner)
		tools := slices.Collect(maps.Keys(included.Tools))
		if isSet {
			tools = all.tools(p.Name, from)
		}
		for _, tool := range tools {
			p.Tools[tool] = included.Tools[tool]
			if known, listed := included.Arguments[tool]; listed {
				p.Arguments[tool] = known
			}
		}
	}
}

// tools expands a provider's references to a sorted list of distinct tools.
func (all tableSet) tools(provider string, references ...string) []string {
	var out []string
	for _, ref := range references {
		set, isSet := strings.CutPrefix(ref, "@")
		if !isSet {
			out = append(out, ref)
			continue
		}
		owner, name, elsewhere := strings.Cut(set, ".")
		if !elsewhere {
			owner, name = provider, set
		}
		before := len(out)
		for _, rows := range all.table(owner).Rows {
			for _, r := range rows {
				if r.Set == name {
					out = append(out, r.Names...)
				}
			}
		}
		out = append(out, all.tools(owner, all.table(owner).Sets[name]...)...)
		if len(out) == before {
			panic(fmt.Errorf("provider %s: %s: no such set", provider, ref))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rowEdges returns the edges of a row: with matched arguments to the tools in Same, without
// to all others.
func (all tableSet) rowEdges(provider string, r toolRow, class Class) []Edge {
	whole := all.tools(provider, r.Invalidates...)
	if len(whole) > 0 && (class == Indeterminate || class == MutatesExternal) {
		whole = append(whole, all.tools(provider, all.table(provider).ShownIn...)...)
	}
	match := make(map[string][]string) // tool → matched argument
	for _, tool := range whole {
		match[tool] = nil
	}
	for name, refs := range r.Same {
		for _, tool := range all.tools(provider, refs...) {
			match[tool] = []string{name}
		}
	}
	var out []Edge
	for _, tool := range slices.Sorted(maps.Keys(match)) {
		out = append(out, Edge{tool, match[tool]})
	}
	return out
}

func (r toolRow) layer(class Class) Layer {
	l := r.Layer
	l.Class, l.Validate.File, l.URLArgument = class, r.Validate, r.URLArgument
	l.Cost = Cost{TypicalKB: r.Chars[0] / 1024, MaxKB: r.Chars[1] / 1024, Freshness: time.Duration(r.FreshnessS * float64(time.Second))}
	return l
}
