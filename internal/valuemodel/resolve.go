package valuemodel

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Upstream is the configuration of a server, and the name that the server reports.
type Upstream struct {
	Name     string
	URL      string // "" for a local process
	Provider string // configured provider; "" to use Recognised or the server's own name
	Trust    bool   // the server's own statements may loosen restrictions, not only tighten them
	Domain   string // "" for the remote host or "local"
	Remote   *bool  // whether it reads from a remote service; nil to derive it from the url, the provider or Inferred
	Inferred Inferred
	Server   string // serverInfo.name; "" if unknown

	Recognised Recognised // server recognised by the other settings

	Sources map[string]string // configuration key of a field → its position, as FILE:LINE; an absent key is named in full instead
}

// source returns the layer of a field that a key of the upstream sets.
func (u *Upstream) source(key string) string {
	return cmp.Or(u.Sources[key], "upstreams."+u.Name+"."+key)
}

// Same reports whether models of u and v are equal, except for the positions of their sources.
func (u Upstream) Same(v Upstream) bool {
	u.Sources, v.Sources = nil, nil
	return reflect.DeepEqual(u, v)
}

// Hints are a server's own statements about a tool; nil fields are not stated.
type Hints struct {
	ReadOnly    *bool
	Destructive *bool
	Arguments   []string // names of all arguments; nil if unknown
}

// mayWrite reports whether the server says that a call may change something. Of two
// contradicting hints the more restrictive one counts.
func (h Hints) mayWrite() bool { return isFalse(h.ReadOnly) || isTrue(h.Destructive) }

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// trust is how an upstream's provider was identified, in ascending order of trust.
type trust int

const (
	none       trust = iota // no provider
	claimed                 // by the server's own name; its layer may only tighten restrictions
	trusted                 // by the server's own name, and the operator trusts the server
	recognised              // by the settings; a hint that a call may write still counts
	stated                  // by the operator
)

// origin is a provider with how it was identified.
type origin struct {
	Provider
	trust   trust
	source  string     // name of its layer in Sources
	started Recognised // how its server was started
}

func originOf(u Upstream) origin {
	own := claimed
	if u.Trust {
		own = trusted
	}
	identified := func(p Provider, by trust, words string) origin {
		return origin{p, by, strings.TrimSuffix("provider "+p.Name+" ("+words+")", " ()"), u.Recognised}
	}
	named, known := ProviderNamed(u.Recognised.Provider)
	if u.Provider != "" {
		p, known := ProviderNamed(u.Provider)
		if !known { // also for NoProvider
			return origin{}
		}
		return identified(p, stated, "")
	}
	if known && !u.Recognised.Bare {
		return identified(named, recognised, u.Recognised.By)
	}
	if p, serves := ProviderNamed(loadSummary().Servers[strings.ToLower(u.Server)]); serves {
		return identified(p, own, "server's own name")
	}
	if known {
		return identified(named, own, u.Recognised.By)
	}
	return origin{}
}

// mayLoosen reports whether the provider's layer for a tool may loosen restrictions. If
// the server was only recognised by its settings, the tool must be in the table and have
// no other arguments.
func (o origin) mayLoosen(tool string, h Hints) bool {
	if o.trust == recognised {
		_, listed := o.Arguments[tool]
		return listed && o.mismatch(tool, h) == ""
	}
	return o.trust >= trusted
}

// layer returns the part of the provider's layer that applies: always costs, edges and
// restrictions; the rate limit host unless the server is only claimed to be the provider's;
// and only if the provider may loosen restrictions, the classification of calls, the
// freshness and validation of results, and the argument that names the host.
func (o origin) layer(tool string, h Hints) Layer {
	l := o.tableLayer(tool)
	if o.Stateful {
		l.Speculate, l.Classify = new(false), ""
	}
	if !o.mayLoosen(tool, h) {
		l.Classify, l.Validate.File, l.URLArgument, l.Cost.Freshness = "", "", "", 0
	}
	if o.trust == claimed {
		l.Host = ""
	}
	if o.trust != stated && h.mayWrite() {
		l.Classify = ""
	}
	return l
}

const (
	sourceDefault    = "default"
	sourceAnnotation = "annotation"
)

// defaults returns the layer below all others.
func defaults() Layer {
	return Layer{
		ValueClass: Supporting,
		Speculate:  new(true),
		Disclosure: SameService,
		Volatile:   new(false),
		Cost:       Cost{TypicalKB: 4, MaxKB: 40, Latency: 450 * time.Millisecond},
	}
}

// defaultFailFastAfter is the number of identical results in a row after which a
// read-only tool counts as being called in a loop.
const defaultFailFastAfter = 3

// Resolve merges all layers of a tool. Tool "" stands for the upstream's other requests.
func (m *Models) Resolve(u Upstream, tool string, h Hints) *Model {
	o := originOf(u)
	out := &Model{Upstream: u.Name, Tool: tool, Provider: o.Name, Origin: o.source, Sources: make(map[string]string)}
	out.merge(Rule{Layer: defaults(), Source: sourceDefault})
	out.InvalidatesOnly, out.Sources["invalidates_only"] = new(false), sourceDefault
	out.Class, out.Sources["side_effect_class"] = classOf(u, o, tool, h)
	out.Vouched = o.trust >= recognised && out.Sources["side_effect_class"] != sourceAnnotation
	if o.trust == recognised {
		out.mismatch = o.mismatch(tool, h)
	}
	out.merge(Rule{Layer: o.layer(tool, h), Source: o.source})
	out.applyRules(m.rulesOf(u.Name, tool))
	out.setServer(u, o)
	out.derive(u)
	out.setPlaces(m.edges().naming(u.Name, tool))
	return out
}

// classOf returns the class of a tool and its source, before the operator's rules.
func classOf(u Upstream, o origin, tool string, h Hints) (Class, string) {
	says := o.tableLayer(tool).Class
	if o.Stateful && tool != "" {
		says = says.restricted()
	}
	if o.trust == stated && says != "" {
		return says, o.source
	}
	class, source := Indeterminate, sourceDefault
	switch {
	case says != "" && (o.mayLoosen(tool, h) || says.rank() >= Indeterminate.rank()):
		class, source = says, o.source
	case u.Trust && isTrue(h.ReadOnly):
		class, source = ReadOnly, sourceAnnotation
	}
	if h.mayWrite() && (class.rank() < Indeterminate.rank() || source == sourceDefault) {
		return class.restricted(), sourceAnnotation
	}
	return class, source
}

// classes are in ascending order of restriction.
var classes = []Class{"", Pure, ReadOnly, Indeterminate, MutatesLocal, MutatesExternal}

func (c Class) rank() int { return slices.Index(classes, c) }

// restricted returns Indeterminate in place of a less restricted class.
func (c Class) restricted() Class { return classes[max(c.rank(), Indeterminate.rank())] }

// applyRules merges the operator's rules, which may loosen any restriction, in ascending
// precedence. A class applies to every call and replaces an earlier classify; a classify
// makes the remaining calls indeterminate and replaces an earlier class. speculate =
// false is only overridden by a rule with a more exact pattern; if a provider sets it,
// by any rule but a glob.
func (m *Model) applyRules(rules []compiledRule) {
	refused := tunedRule // form of the rule that forbids prefetches
	if isFalse(m.Speculate) {
		refused = globPattern // a provider forbids them
	}
	for _, r := range rules {
		l := r.Layer
		if l.Class != "" {
			m.Class, m.Sources["side_effect_class"], m.Vouched = l.Class, r.source("side_effect_class"), true
			m.Classify = ""
			delete(m.Sources, "classify")
			if !l.Class.Reads() {
				m.mismatch = "" // the class of the table would not apply either
			}
		}
		if l.Classify != "" && (l.Class == "" || l.Class.Reads()) {
			m.Class, m.Sources["side_effect_class"], m.Vouched = Indeterminate, r.source("classify"), true
		}
		if isTrue(l.Speculate) && isFalse(m.Speculate) && r.form <= refused {
			l.Speculate = nil
		}
		if isFalse(l.Speculate) {
			refused = max(refused, r.form)
		}
		r.Layer = l
		m.merge(r.Rule)
		setField(m, "invalidates_only", r.Rule, &m.InvalidatesOnly, l.InvalidatesOnly)
		m.BackOff = m.BackOff || l.FailFastAfter > 0
	}
}

// derive sets the fields that follow from the merged ones.
func (m *Model) derive(u Upstream) {
	if m.Class.rank() > Indeterminate.rank() { // every call is a write
		m.Classify = ""
		delete(m.Sources, "classify")
	}
	if !m.MayRead() && !isFalse(m.Speculate) {
		m.Speculate, m.Sources["speculate"] = new(false), m.Sources["side_effect_class"]
	}
	if m.MayRead() && m.FailFastAfter == 0 {
		m.FailFastAfter, m.Sources["fail_fast_after_n"] = defaultFailFastAfter, sourceDefault+" (only a hint)"
	}
	if m.Tool == "" { // rules apply to tools only
		m.InvalidatesOnly, m.Sources["invalidates_only"] = new(false), sourceDefault
	}
	if isTrue(m.InvalidatesOnly) && len(m.Invalidates) == 0 {
		m.InvalidatesOnly = new(false)
		m.Sources["invalidates_only"] += " (ignored: the tool has no invalidates)"
	}
	if u.URL != "" { // the path names a file on another machine
		m.Validate.File = ""
		delete(m.Sources, "validate")
	}
}
