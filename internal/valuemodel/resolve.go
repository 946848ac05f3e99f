package valuemodel

import (
	"time"
)

// Upstream is what the operator says of a server, and what it calls itself.
type Upstream struct {
	Name     string
	URL      string // "" for a process on this machine
	Provider string // the operator's word for which provider's tools it has; "": as Recognised, or its own name, says
	Trust    bool   // what the server says of itself may loosen, not only deny
	Domain   string // "": the remote host, or "local"
	Remote   *bool  // whether its reads go to a service elsewhere; nil: as the url, the provider or Inferred say
	Inferred Inferred
	Server   string // serverInfo.name; "" not known

	Recognised Recognised // what the rest of the operator's words name
}

// Hints are what a server says of a tool; nil: nothing.
type Hints struct {
	ReadOnly    *bool
	Destructive *bool
	Arguments   []string // the names of its arguments; nil: they cannot be told
}

// deny reports whether the server says that a call may change something. One
// that says both that and the contrary is taken at its worst.
func (h Hints) deny() bool { return isFalse(h.ReadOnly) || isTrue(h.Destructive) }

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// standing says what names an upstream's provider, and so how far it is believed.
type standing int

const (
	none       standing = iota // it has no provider
	claimed                    // its server's own, which may only deny
	believed                   // its server's own, and the operator trusts it
	recognised                 // the operator's on how it is reached, which beat no hint that denies
	stated                     // the operator's
)

// origin is a provider, and what names it.
type origin struct {
	Provider
	standing standing
	source   string     // as Sources names it
	started  Recognised // how its server is
}

func originOf(u Upstream) origin {
	if u.Provider != "" {
		p, known := ProviderNamed(u.Provider)
		switch {
		case !known: // NoProvider too
			return origin{}
		case p.Name == clientTools:
			return origin{p, stated, sourceDefault + " (" + p.Name + ")", Recognised{}}
		}
		return origin{p, stated, "provider " + p.Name, u.Recognised}
	}
	by := func(p Provider, s standing, words string) origin {
		return origin{p, s, "provider " + p.Name + " (" + words + ")", u.Recognised}
	}
	own := claimed
	if u.Trust {
		own = believed
	}
	named, known := ProviderNamed(u.Recognised.Provider)
	if known && !u.Recognised.Bare {
		return by(named, recognised, u.Recognised.By)
	}
	if p, serves := providerOfServer(u.Server); serves {
		return by(p, own, "server's own name")
	}
	if known {
		return by(named, own, u.Recognised.By)
	}
	return origin{}
}

// loosens reports whether what the provider says of a tool may loosen. Where the operator's
// words only name the server, a tool must be the one that the table knows, with no arguments
// but those.
func (o origin) loosens(tool string, h Hints) bool {
	if o.standing == recognised {
		_, listed := o.Arguments[tool]
		return listed && o.doubt(tool, h) == ""
	}
	return o.standing >= believed
}

// layer is what of the provider's layer counts. A server's own name, not
// trusted, is taken for costs and edges, which loosen nothing, but does not tell calls
// apart, say when an answer may be kept, or choose the limits that count.
func (o origin) layer(tool string, h Hints) Layer {
	l := o.Provider.layer(tool, o.started)
	if o.standing != none && o.Stateful {
		l.Speculate, l.Classify = new(false), ""
	}
	if !o.loosens(tool, h) {
		l.Classify, l.ValidateFile, l.URLArgument, l.Cost.Freshness = "", "", "", 0
	}
	if o.standing == claimed {
		l.Host = ""
	}
	if o.standing != stated && h.deny() {
		l.Classify = ""
	}
	return l
}

const (
	sourceDefault    = "default"
	sourceAnnotation = "annotation"
)

// base is what is taken for granted of any tool.
func base() Layer {
	return Layer{
		ValueClass: Supporting,
		Speculate:  new(true),
		Disclosure: SameService,
		Volatile:   new(false),
		Cost:       Cost{TypicalKB: 4, MaxKB: 40, Latency: 450 * time.Millisecond},
	}
}

// loopAfter is how many equal answers in a row of a tool that reads are taken
// for a loop.
const loopAfter = 3

// Resolve merges what is known of a tool. With no tool it is about whatever else
// the upstream is asked.
func (m *Models) Resolve(u Upstream, tool string, h Hints) *Model {
	o := originOf(u)
	out := &Model{Upstream: u.Name, Tool: tool, Provider: o.Name, Origin: o.source, Sources: make(map[string]string)}
	out.merge(base(), sourceDefault)
	out.InvalidatesOnly, out.Sources["invalidates_only"] = new(false), sourceDefault
	out.Class, out.Sources["side_effect_class"] = classOf(u, o, tool, h)
	out.Vouched = o.standing >= recognised && out.Sources["side_effect_class"] != sourceAnnotation
	if o.standing == recognised {
		out.Doubt = o.doubt(tool, h)
	}
	out.merge(o.layer(tool, h), o.source)
	out.applyRules(m.rulesOf(u.Name, tool))
	out.locate(u, o)
	out.conclude(u)
	out.place(m.edges().naming(u.Name, tool))
	return out
}

// classOf says what a tool does, before the operator's rules.
func classOf(u Upstream, o origin, tool string, h Hints) (Class, string) {
	says := o.Provider.layer(tool, o.started).Class
	if o.standing != none && o.Stateful && tool != "" {
		says = stricter(says, Indeterminate)
	}
	if o.standing == stated && says != "" {
		return says, o.source
	}
	class, source := Indeterminate, sourceDefault
	switch {
	case says != "" && (o.loosens(tool, h) || says.rank() >= Indeterminate.rank()):
		class, source = says, o.source
	case u.Trust && isTrue(h.ReadOnly):
		class, source = ReadOnly, sourceAnnotation
	}
	if h.deny() && (class.rank() < Indeterminate.rank() || source == sourceDefault) {
		return stricter(class, Indeterminate), sourceAnnotation
	}
	return class, source
}

// rank is a class's place in the order of restriction, the freest first. One that
// there is not is as the worst.
func (c Class) rank() int {
	switch c {
	case "":
		return 0
	case Pure:
		return 1
	case ReadOnly:
		return 2
	case Indeterminate:
		return 3
	case MutatesLocal:
		return 4
	}
	return 5
}

func stricter(a, b Class) Class {
	if a.rank() >= b.rank() {
		return a
	}
	return b
}

// applyRules merges what the operator says, which may loosen anything: the rule that
// gives way first, then the others. A class of the operator's speaks for every call, and a
// way to tell calls apart says that the rest is not known: each takes the place of
// what was said of either before. That a tool is not to be called on a guess
// stands against every rule that is no more exact, and where a provider says it,
// against every glob.
func (m *Model) applyRules(rules []ruling) {
	refused := aGlob // how exactly what says so names the tool
	for _, r := range rules {
		l := r.Layer
		if l.Class != "" {
			m.Class, m.Sources["side_effect_class"], m.Vouched = l.Class, r.Source, true
			m.Classify = ""
			delete(m.Sources, "classify")
		}
		if l.Classify != "" && (l.Class == "" || l.Class.Reads()) {
			m.Class, m.Sources["side_effect_class"], m.Vouched = Indeterminate, r.Source, true
		}
		if isTrue(l.Speculate) && isFalse(m.Speculate) && r.exactness() <= refused {
			l.Speculate = nil
		}
		if isFalse(l.Speculate) {
			refused = r.exactness()
		}
		m.merge(l, r.Source)
		put(m, "invalidates_only", r.Source, &m.InvalidatesOnly, l.InvalidatesOnly)
		m.BackOff = m.BackOff || l.FailFastAfter > 0
	}
}

// conclude draws the conclusions from what was merged.
func (m *Model) conclude(u Upstream) {
	if m.Class.rank() > Indeterminate.rank() { // there is nothing to tell apart
		m.Classify = ""
		delete(m.Sources, "classify")
	}
	reads := m.Class.Reads() || m.Classify != ""
	if !reads && !isFalse(m.Speculate) {
		m.Speculate, m.Sources["speculate"] = new(false), m.Sources["side_effect_class"]
	}
	if reads && m.FailFastAfter == 0 {
		m.FailFastAfter, m.Sources["fail_fast_after_n"] = loopAfter, sourceDefault
	}
	if m.Tool == "" { // what no rule can have been about
		m.InvalidatesOnly, m.Sources["invalidates_only"] = new(false), sourceDefault
	}
	if isTrue(m.InvalidatesOnly) && len(m.Invalidates) == 0 {
		m.InvalidatesOnly, m.Unaimed = new(false), !m.Class.Reads()
	}
	if u.URL != "" { // the path would name a file of another machine
		m.ValidateFile = ""
		delete(m.Sources, "validate")
	}
}
