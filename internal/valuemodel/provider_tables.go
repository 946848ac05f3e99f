package valuemodel

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// providers returns the value models that come with the program. Every class
// in them was given by hand, from what a tool's description and schema say it
// does: what a server says of itself errs both ways. In doubt a tool is
// indeterminate.
//
// An edge is matched only where equal arguments surely name the same thing, so
// by the number of an issue alone where a repository can go by two names, and
// not at all where identifiers have several spellings.
//
// The layers share their slices: nobody may write to them.
func providers() []Provider {
	return slices.Concat(
		clientProviders(),
		filesystemProviders(),
		gitProviders(),
		codeProviders(),
		databaseProviders(),
		browserProviders(),
		thinkingProviders(),
		webProviders(),
		githubProviders(),
		gitlabProviders(),
		atlassianProviders(),
		trackerProviders(),
		notionProviders(),
		grafanaProviders(),
	)
}

// toolTable holds tools while a provider is being written down: name → layer.
// Its methods change every tool in it and return it.
type toolTable map[string]Layer

func tools(class Class, names []string) toolTable {
	t := make(toolTable, len(names))
	for _, name := range names {
		t[name] = Layer{Class: class}
	}
	return t
}

func constant(names ...string) toolTable     { return tools(Pure, names) }
func reading(names ...string) toolTable      { return tools(ReadOnly, names) }
func unsure(names ...string) toolTable       { return tools(Indeterminate, names) }
func writingHere(names ...string) toolTable  { return tools(MutatesLocal, names) }
func writingThere(names ...string) toolTable { return tools(MutatesExternal, names) }

func (t toolTable) each(change func(*Layer)) toolTable {
	for name, layer := range t {
		change(&layer)
		t[name] = layer
	}
	return t
}

// live marks what changes by itself: status, logs, runs, notifications.
func (t toolTable) live() toolTable {
	return t.each(func(l *Layer) { l.Volatile = new(true) })
}

// unguessed marks what costs too much, or shows too much, to be asked on a guess.
func (t toolTable) unguessed() toolTable {
	return t.each(func(l *Layer) { l.Speculate = new(false) })
}

// abroad marks what sends its arguments to whoever they name.
func (t toolTable) abroad() toolTable {
	return t.each(func(l *Layer) { l.Disclosure = ThirdParty })
}

// urlIn names the argument whose URL says which host is asked.
func (t toolTable) urlIn(argument string) toolTable {
	return t.each(func(l *Layer) { l.URLArgument = argument })
}

func (t toolTable) host(host string) toolTable {
	return t.each(func(l *Layer) { l.Host = host })
}

// file names the argument that holds the one file an answer depends on.
func (t toolTable) file(argument string) toolTable {
	return t.each(func(l *Layer) { l.ValidateFile = argument })
}

func (t toolTable) classify(c Classify) toolTable {
	return t.each(func(l *Layer) { l.Classify = c })
}

func (t toolTable) worth(v ValueClass) toolTable {
	return t.each(func(l *Layer) { l.ValueClass = v })
}

// chars sets the sizes of an answer, in characters as the corpus counts them.
func (t toolTable) chars(median, most float64) toolTable {
	return t.each(func(l *Layer) { l.Cost.TypicalKB, l.Cost.MaxKB = median/1024, most/1024 })
}

func (t toolTable) fresh(d time.Duration) toolTable {
	return t.each(func(l *Layer) { l.Cost.Freshness = d })
}

// givesUpAfter sets how many equal answers in a row are a loop.
func (t toolTable) givesUpAfter(n int) toolTable {
	return t.each(func(l *Layer) { l.FailFastAfter = n })
}

func (t toolTable) leadsTo(next ...FollowUp) toolTable {
	return t.each(func(l *Layer) { l.FollowUps = next })
}

// stales says whose answers these tools make stale: all of them, for the tools
// write them all.
func (t toolTable) stales(edges ...[]Edge) toolTable {
	all := slices.Concat(edges...)
	return t.each(func(l *Layer) { l.Invalidates = all })
}

// showIn adds edges to these readers of another server to whatever changes what
// they read; those it has already stay as they are.
func (t toolTable) showIn(readers ...string) toolTable {
	return t.each(func(l *Layer) {
		if len(l.Invalidates) == 0 || l.Class.Reads() || l.Class == MutatesLocal {
			return
		}
		var named []string
		for _, e := range l.Invalidates {
			named = append(named, e.Tool)
		}
		l.Invalidates = slices.Concat(l.Invalidates, stale(without(readers, named...)...))
	})
}

// joined is the union of tables that have no tool in common. It panics if they
// have: the tables are fixed, and a test builds them all.
func joined(tables ...toolTable) toolTable {
	all := toolTable{}
	for _, t := range tables {
		for name, layer := range t {
			if _, twice := all[name]; twice {
				panic(fmt.Sprintf("provider table: tool %q twice", name))
			}
			all[name] = layer
		}
	}
	return all
}

// names lists the tools of the tables in order.
func names(tables ...toolTable) []string {
	return slices.Sorted(maps.Keys(joined(tables...)))
}

func without(all []string, drop ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return slices.Contains(drop, name)
	})
}

// stale is an edge to every answer of each tool.
func stale(tools ...string) []Edge {
	edges := make([]Edge, len(tools))
	for i, tool := range tools {
		edges[i] = Edge{Tool: tool}
	}
	return edges
}

// staleSame is an edge to those answers of each tool that were asked with the
// same value of argument.
func staleSame(argument string, tools ...string) []Edge {
	edges := stale(tools...)
	for i := range edges {
		edges[i].Match = []string{argument}
	}
	return edges
}

// follow is a follow-up whose arguments come as name, binding, name, binding.
// It panics on a binding that does not parse, for the same reason as joined.
func follow(tool string, probability float64, args ...string) FollowUp {
	f := FollowUp{Tool: tool, Probability: probability, Max: 3}
	for pair := range slices.Chunk(args, 2) {
		binding, err := ParseBinding(pair[1])
		if err != nil {
			panic(fmt.Sprintf("provider table: follow-up %s: %s: %v", tool, pair[0], err))
		}
		if f.Args == nil {
			f.Args = make(map[string]Binding, len(args)/2)
		}
		f.Args[pair[0]] = binding
	}
	return f
}
