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

// models holds a file for each provider. Every class in them was given by hand, from what
// a tool's description and schema say it does: what a server says of itself errs both
// ways. In doubt a tool is indeterminate.
//
// An edge is matched only where equal arguments surely name the same thing, so by the
// number of an issue alone where a repository can go by two names, and not at all where
// identifiers have several spellings.
//
//go:embed models/*.toml
var models embed.FS

// table is a file: a provider as it is written down. A name that begins with @ stands for
// the tools of a set, "@set" of the same file or "@provider.set" of another. It has a field
// for each key of the file.
type table struct {
	Provider
	Packages []string            // "npm:@acme/tickets", "pypi:…", "docker:…" or "go:…"
	Hosts    []string            // of the URLs at which the service itself offers it
	Programs []string            // what the packages install
	Include  []string            // providers, or sets of them, whose tools it has as well
	ShownIn  []string            `toml:"shown_in"` // readers of other servers that see what its writes change there
	Sets     map[string][]string // name → tools

	Pure            []toolRow
	ReadOnly        []toolRow `toml:"read_only"`
	Indeterminate   []toolRow
	MutatesLocal    []toolRow `toml:"mutates_local"`
	MutatesExternal []toolRow `toml:"mutates_external"`

	FollowUp []followUpRow `toml:"follow_up"`

	made *Provider // what it comes to, once that is worked out: others that include it share its edges
}

// toolRow says of several tools the same: a layer, and what it is written down with. It has
// a field for each key of such a row.
type toolRow struct {
	Layer
	Names       []string
	Set         string              // in which the tools are
	FreshnessS  float64             `toml:"freshness_ttl_s"`
	Chars       [2]float64          // sizes of an answer in characters, as the corpus counts them: median, most
	Invalidates []string            // tools and sets
	Same        map[string][]string // argument → of these tools only the answers that were asked with the same value
}

// followUpRow is a follow-up of several tools. Max is 3 for all.
type followUpRow struct {
	After       []string
	Tool        string
	Probability float64
	Args        map[string]string // argument → binding
}

// summary is what must be known of all tables before any of them is read, which is done for a
// provider when it is asked for: to read them all takes 20 ms, on which the start of the program
// would wait, and memory for good. TestSummary makes its file of the tables.
type summary struct {
	Servers    map[string]string   // what a server calls itself → provider
	References map[string]string   // what names a server, as [Recognise] writes it → provider
	Requires   map[string][]string // provider → flags of which one must be given
	Flags      []string            // that change what some server does
	Shareable  map[string]Sharing  // reference → on which terms the server holds no state of a session
	Edges      []string            // of all tools, each once: its tool, and what it matches, between spaces
}

//go:embed summary.json
var summaryFile []byte

var summarised = sync.OnceValue(func() (s summary) {
	if err := json.Unmarshal(summaryFile, &s); err != nil {
		panic(err) // it comes with the program, and a test reads it
	}
	return s
})

// edges are those of all tables.
func (s summary) edges() []Edge {
	all := make([]Edge, len(s.Edges))
	for i, text := range s.Edges {
		words := strings.Fields(text)
		all[i] = Edge{Tool: words[0], Match: words[1:]}
	}
	return all
}

// tableSet is the tables that were read: provider → table.
type tableSet map[string]*table

var tables = struct {
	mu   sync.Mutex
	read tableSet
}{read: make(tableSet)}

// ProviderNamed returns the provider of that name.
func ProviderNamed(name string) (Provider, bool) {
	if _, err := models.Open(fileOf(name)); err != nil {
		return Provider{}, false
	}
	tables.mu.Lock()
	defer tables.mu.Unlock()
	return tables.read.provider(name), true
}

func fileOf(provider string) string { return "models/" + provider + ".toml" }

// table reads a file, in which an unknown key is an error. It panics, for they come with the
// program, and a test reads them.
func (all tableSet) table(name string) *table {
	if t := all[name]; t != nil {
		return t
	}
	text, err := models.ReadFile(fileOf(name))
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

// provider works out a table.
func (all tableSet) provider(name string) Provider {
	t := all.table(name)
	if t.made != nil {
		return *t.made
	}
	p := t.Provider
	p.Name, p.References = name, t.references()
	p.Tools, p.Arguments = make(map[string]Layer), make(map[string][]string)
	all.include(p, t.Include)
	maps.Copy(p.Arguments, t.Arguments)
	for class, rows := range t.rows() {
		for _, r := range rows {
			l := r.layer(class)
			l.Invalidates = all.edges(name, r, class)
			for _, tool := range r.Names {
				if _, twice := p.Tools[tool]; twice {
					panic(fmt.Errorf("provider %s: tool %q twice", name, tool))
				}
				p.Tools[tool] = l
			}
		}
	}
	for _, f := range t.FollowUp {
		for _, tool := range f.After {
			l := p.Tools[tool]
			l.FollowUps = append(slices.Clip(l.FollowUps), f.followUp())
			p.Tools[tool] = l
		}
	}
	t.made = &p
	return p
}

// include gives p the tools of other providers, or of sets of them.
func (all tableSet) include(p Provider, others []string) {
	for _, from := range others {
		owner, _, isSet := strings.Cut(strings.TrimPrefix(from, "@"), ".")
		included := all.provider(owner)
		var only []string
		if isSet {
			only = all.tools(p.Name, from)
		}
		for tool, l := range included.Tools {
			if !isSet || slices.Contains(only, tool) {
				p.Tools[tool] = l
				if known, listed := included.Arguments[tool]; listed {
					p.Arguments[tool] = known
				}
			}
		}
	}
}

// references are all that names the table's servers, as [Recognise] writes it.
func (t *table) references() []string {
	out := slices.Clone(t.Packages)
	for _, name := range t.Hosts {
		out = append(out, host+":"+name)
	}
	for _, name := range t.Programs {
		out = append(out, program+":"+name, linked+":"+name)
	}
	return out
}

func (t *table) rows() map[Class][]toolRow {
	return map[Class][]toolRow{
		Pure: t.Pure, ReadOnly: t.ReadOnly, Indeterminate: t.Indeterminate,
		MutatesLocal: t.MutatesLocal, MutatesExternal: t.MutatesExternal,
	}
}

// tools are those that references of a provider stand for, each once, in order.
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
		for _, rows := range all.table(owner).rows() {
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

// edges are those of a row of a provider: matched to what it names in Same, whole to the
// others.
func (all tableSet) edges(provider string, r toolRow, class Class) []Edge {
	whole := all.tools(provider, r.Invalidates...)
	if len(whole) > 0 && (class == Indeterminate || class == MutatesExternal) {
		whole = append(whole, all.tools(provider, all.table(provider).ShownIn...)...)
	}
	argument := make(map[string]string) // tool → what must be the same
	for name, refs := range r.Same {
		for _, tool := range all.tools(provider, refs...) {
			argument[tool] = name
		}
	}
	named := slices.Compact(slices.Sorted(slices.Values(slices.Concat(whole, slices.Collect(maps.Keys(argument))))))
	out := slices.Grow([]Edge(nil), len(named))
	for _, tool := range named {
		e := Edge{Tool: tool}
		if name, same := argument[tool]; same {
			e.Match = []string{name}
		}
		out = append(out, e)
	}
	return out
}

func (r toolRow) layer(class Class) Layer {
	l := r.Layer
	l.Class = class
	l.Cost = Cost{TypicalKB: r.Chars[0] / 1024, MaxKB: r.Chars[1] / 1024, Freshness: time.Duration(r.FreshnessS * float64(time.Second))}
	return l
}

func (f followUpRow) followUp() FollowUp {
	out := FollowUp{Tool: f.Tool, Probability: f.Probability, Max: 3}
	for name, text := range f.Args {
		b, err := ParseBinding(text)
		if err != nil {
			panic(fmt.Errorf("follow-up %s: %s: %w", f.Tool, name, err))
		}
		if out.Args == nil {
			out.Args = make(map[string]Binding, len(f.Args))
		}
		out.Args[name] = b
	}
	return out
}
