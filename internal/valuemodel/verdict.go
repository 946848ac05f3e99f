package valuemodel

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Use is what else decides whether the answers of an upstream are fetched ahead.
type Use struct {
	Prefetch  string        // [enrichment].mode; "on": it is done
	MaxAge    time.Duration // [enrichment].max_age
	Dollars   float64       // [enrichment].max_dollars_per_session
	Exclusive bool          // nothing but calls through the proxy changes what it reads
}

// Verdict says in plain words what is done with the answers of a tool.
type Verdict struct {
	Cacheable    bool   `json:"cacheable"`    // an answer, or one of some calls, may be stored
	Prefetchable bool   `json:"prefetchable"` // calls, or some, may be made ahead
	Cached       string `json:"cached"`       // "60 s", "no, …"
	Prefetched   string `json:"prefetched"`   // "yes, …", "no, …"
	Change       string `json:"change,omitempty"`
}

// String is the verdict on one line.
func (v Verdict) String() string {
	text := "cached: " + v.Cached + " · prefetched: " + v.Prefetched
	if v.Change != "" {
		text += " · to change that: " + v.Change
	}
	return text
}

// Verdict says what is done with the answers of a tool, and which one line of the
// configuration would change it: the first of those that a person could mean with which more
// would be done.
func (m *Models) Verdict(u Upstream, tool string, h Hints, use Use) Verdict {
	now := m.Resolve(u, tool, h)
	v := now.verdict(use)
	if v.Prefetchable || use.Prefetch != "on" {
		if v.Cacheable && !now.kept() {
			v.Change = fmt.Sprintf("freshness_ttl_s = 60 in [%s.cost_model], if an answer is good for so long", block(u, tool))
		}
		return v
	}
	if now.Doubt != "" && h.Arguments == nil {
		v.Change = "use it once through the proxy"
		return v
	}
	for _, c := range u.Changes(now.Provider) {
		then := use
		then.Exclusive = use.Exclusive || c.Exclusive
		switch got := m.Resolve(c.Upstream, tool, h).verdict(then); {
		case got.Prefetchable:
			v.Change = c.Text
			return v
		case got.Cacheable && !v.Cacheable && v.Change == "":
			v.Change = c.Text
		}
	}
	if v.Change == "" && !v.Cacheable && (now.Unclassified() || now.Sources["side_effect_class"] == sourceAnnotation) {
		v.Change = fmt.Sprintf("side_effect_class = \"read_only\" in [%s], if it only reads", block(u, tool))
	}
	return v
}

// Change is a line of the configuration that may let more be done with an upstream's answers.
type Change struct {
	Text      string   // the line, where it belongs, and when it may be written
	Upstream  Upstream // with it
	Exclusive bool     // the line says that nothing but calls through the proxy changes what it reads
}

// Changes are the lines that a person could mean, those that say least first. provider is
// the one that is known of its tools, "" if none is. The last one claims most: few servers are
// used by one agent alone, so it is for callers that no other line helps.
func (u Upstream) Changes(provider string) (all []Change) {
	add := func(line, when string, exclusive bool, set func(*Upstream)) {
		with := u
		set(&with)
		all = append(all, Change{fmt.Sprintf("%s in [upstreams.%s], if %s", line, u.Name, when), with, exclusive})
	}
	if !u.Trust && u.Provider == "" {
		when := "you believe what the server says of its tools"
		if u.Inferred.Host != "" {
			when += " (" + u.Inferred.String() + ")"
		}
		add("trust = true", when, false, func(u *Upstream) { u.Trust = true })
	}
	provider = cmp.Or(provider, u.Recognised.Provider)
	if provider != "" && u.Provider == "" {
		add(fmt.Sprintf("provider = %q", provider), "it is such a server", false, func(u *Upstream) { u.Provider = provider })
	}
	if u.Remote == nil && provider == "" {
		add("remote = true", "what it reads is a service elsewhere", false, func(u *Upstream) { u.Remote = new(true) })
	}
	add("exclusive = true", "only this agent changes what it reads: no person, no other program", true, func(*Upstream) {})
	return all
}

func block(u Upstream, tool string) string { return "tools." + strconv.Quote(u.Name+"/"+tool) }

// kept reports whether an answer may be stored for longer than its call takes.
func (m *Model) kept() bool {
	return m.Class == Pure || m.ValidateFile != "" || m.Cost.Freshness > 0
}

// steady reports whether what the tool reads changes only in ways that are noticed, or
// where max_age bounds how old an answer may be.
func (m *Model) steady(use Use) bool {
	return use.Exclusive || m.ValidateFile != "" || m.Class == Pure || m.Remote
}

// Allows reports whether answers of the tool, or of some calls, may be stored, and whether
// calls may be made ahead, as far as that does not depend on their arguments.
func (m *Model) Allows(use Use) (cacheable, prefetchable bool) {
	v := m.verdict(use)
	return v.Cacheable, v.Prefetchable
}

func (m *Model) verdict(use Use) Verdict {
	if !m.Class.Reads() && m.Classify == "" {
		return Verdict{Cached: "no", Prefetched: "no, it counts as a write because " + m.whyWrite()}
	}
	v := Verdict{Cacheable: true, Cached: "only with identical calls under way, as nothing says how long it stays fresh"}
	switch {
	case m.Class == Pure:
		v.Cached = "for good"
	case m.ValidateFile != "":
		v.Cached = "while the file that " + m.ValidateFile + " names is the same"
	case m.Cost.Freshness > 0:
		v.Cached = seconds(m.Cost.Freshness)
	}
	if m.Classify != "" {
		v.Cached += ", of calls whose " + map[Classify]string{Shell: "command", SQL: "statement"}[m.Classify] + " only reads"
	}
	if why := m.whyNotAhead(use); why != "" {
		v.Prefetched = "no, " + why
		return v
	}
	v.Prefetchable, v.Prefetched = true, "yes, and served for "+seconds(max(use.MaxAge, m.Cost.Freshness))
	if m.Disclosure == ThirdParty {
		v.Prefetched += ", but never with arguments from results: it tells them third parties"
	}
	return v
}

// whyNotAhead says what stands in the way of a prefetch; "" if nothing does.
func (m *Model) whyNotAhead(use Use) string {
	switch {
	case isFalse(m.Speculate):
		return "speculate = false says " + m.Sources["speculate"]
	case isTrue(m.Volatile):
		return "it changes by itself, says " + m.Sources["volatile"]
	case m.Cost.Dollars > use.Dollars:
		return fmt.Sprintf("a call costs %v dollars and max_dollars_per_session is %v", m.Cost.Dollars, use.Dollars)
	case !m.steady(use):
		return "any program on this machine may change what it reads"
	case use.Prefetch != "on":
		return "[enrichment] mode is " + strconv.Quote(use.Prefetch)
	}
	return ""
}

// whyWrite says what makes a tool count as a write.
func (m *Model) whyWrite() string {
	switch source := m.Sources["side_effect_class"]; {
	case m.Doubt != "":
		return m.Doubt
	case source == sourceDefault:
		return "nothing says that it only reads"
	case source == sourceAnnotation:
		return "its server says that it may change something"
	default:
		return string(m.Class) + ", says " + source
	}
}

// Unclassified reports whether no layer says what a call of the tool does, so that it counts
// as a write.
func (m *Model) Unclassified() bool {
	return m.Class == Indeterminate && m.Classify == "" && m.Sources["side_effect_class"] == sourceDefault
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}
