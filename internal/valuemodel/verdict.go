package valuemodel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PrefetchSettings are what decides, beside the model, whether calls are prefetched: the
// settings, and what earlier prefetches have shown.
type PrefetchSettings struct {
	Mode          string        // [enrichment].mode; only "on" prefetches
	NoStore       bool          // [dedup].max_bytes is 0: nothing is cached or prefetched
	NoBudget      bool          // [enrichment].prefetch_budget_tokens is 0: only audit_only tools are prefetched, as they cost no tokens
	MaxAge        time.Duration // of a prefetched result without a freshness of its own: [enrichment].max_age, or more if Exclusive
	Dollars       float64       // [enrichment].max_dollars_per_session
	Exclusive     bool          // only calls through the proxy change what the upstream reads
	Barred        string        // why the tool was barred for good; "" if it was not
	Proven        bool          // enough results of calls were compared for the server's annotations to count
	AnswersDiffer bool          // two equal calls of the tool gave different answers, so the server's annotations do not count
}

// Off returns the setting by which nothing that costs tokens is prefetched, and the line that would change it.
func (s PrefetchSettings) Off() (why, change string) {
	switch {
	case s.Mode != "on":
		return "[enrichment] mode is " + strconv.Quote(s.Mode), `mode = "on" in [enrichment]`
	case s.NoStore:
		return "[dedup] max_bytes is 0", `max_bytes = "256MiB" in [dedup]`
	case s.NoBudget:
		return "[enrichment] prefetch_budget_tokens is 0", "prefetch_budget_tokens = 8000 in [enrichment]"
	}
	return "", ""
}

// Verdict says in plain words whether a tool's results are cached and prefetched.
type Verdict struct {
	Cacheable    bool   `json:"cacheable"`    // the results of all or some calls may answer later ones
	Prefetchable bool   `json:"prefetchable"` // all or some calls may be prefetched
	Cached       string `json:"cached"`       // "60 s", "no, …"
	Prefetched   string `json:"prefetched"`   // "yes, …", "no, …"
	Change       string `json:"change,omitempty"`

	toCache bool // Change lets results be cached
}

// String returns the verdict on one line.
func (v Verdict) String() string {
	text := "cached: " + v.Cached + " · prefetched: " + v.Prefetched
	switch {
	case v.Change == "":
	case v.toCache:
		text += " · to cache results: " + v.Change
	default:
		text += " · to change that: " + v.Change
	}
	return text
}

// Verdict returns the verdict on a tool, with the first line of configuration that would
// let more of its results be cached or prefetched, if there is one.
func (m *Models) Verdict(u Upstream, tool string, h Hints, settings PrefetchSettings) Verdict {
	now := m.Resolve(u, tool, h)
	v := now.Verdict(settings)
	if why := now.Lacks(h); why != "" {
		return Verdict{Cached: "no, " + why, Prefetched: "no, " + why}
	}
	off, _ := settings.Off()
	if v.Prefetchable || off != "" || now.MayRead() && now.tooOld(settings) {
		if now.MayRead() && !v.Cacheable && !settings.NoStore {
			v.toCache, v.Change = true, fmt.Sprintf("freshness_ttl_s = 60 in [%s.cost_model], if a result stays valid that long", block(u, tool))
		}
		return v
	}
	if now.mismatch != "" && h.Arguments == nil {
		v.Change = "call it once through the proxy"
		return v
	}
	for _, c := range u.Changes(now.Provider) {
		then := settings
		then.Exclusive = settings.Exclusive || c.Exclusive
		switch changed := m.Resolve(c.Upstream, tool, h); {
		case changed.Verdict(then).Prefetchable:
			v.Change = c.Text
			return v
		case changed.MayRead() && !now.MayRead() && v.Change == "":
			v.Change = c.Text
		}
	}
	unknown := !now.MayRead() && (now.Unclassified() || now.Sources["side_effect_class"] == sourceAnnotation)
	if v.Change == "" && (settings.AnswersDiffer && now.Annotated() || unknown && Suggest(tool) != MutatesExternal) {
		v.Change = fmt.Sprintf("side_effect_class = \"read_only\" in [%s], if it is read-only", block(u, tool))
	}
	return v
}

// Change is a line of configuration that may let more of an upstream's results be cached
// or prefetched.
type Change struct {
	Text      string   // the line, its block, and the condition under which it is correct
	Upstream  Upstream // configuration with the line
	Exclusive bool     // the line is exclusive = true
}

// Changes returns the lines that may apply, the weakest claim first. provider is the
// known provider of the tools, or "". The last line claims the most, as few servers are
// used by a single agent; callers should propose it only if no other line helps.
func (u Upstream) Changes(provider string) (all []Change) {
	add := func(line, when string, exclusive bool, set func(*Upstream)) {
		with := u
		set(&with)
		all = append(all, Change{fmt.Sprintf("%s in [upstreams.%s], if %s", line, u.Name, when), with, exclusive})
	}
	if !u.Trust && u.Provider == "" {
		when := "you trust the server's tool annotations"
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
		add("remote = true", "it reads from a remote service", false, func(u *Upstream) { u.Remote = new(true) })
	}
	add("exclusive = true", "only this agent changes what it reads, and no person or other program does", true, func(*Upstream) {})
	return all
}

func block(u Upstream, tool string) string { return "tools." + strconv.Quote(u.Name+"/"+tool) }

// outlivesCall reports whether a result may be cached after its call has ended.
func (m *Model) outlivesCall() bool {
	return m.Class == Pure || m.Cost.Freshness > 0
}

// In reports whether the tool is in a domain.
func (m *Model) In(domain string) bool {
	return slices.Contains(m.Domains, domain)
}

// changesNoticed reports whether every change of what the tool reads is detected, or
// max_age bounds the age of results instead.
func (m *Model) changesNoticed(settings PrefetchSettings) bool {
	return settings.Exclusive || m.Validate.File != "" || m.Class == Pure || m.Remote
}

// codeWords are what the kinds of code are called.
var codeWords = map[Classify]string{Shell: "command", SQL: "statement"}

// Lacks returns which argument no call of a tool has, by its schema, although none is cached or prefetched
// without it; "" if there is no such argument.
func (m *Model) Lacks(h Hints) string {
	switch file := m.Validate.File; {
	case !m.MayRead() || h.Arguments == nil:
	case m.Classify != "" && !slices.ContainsFunc(h.Arguments, m.Classify.IsCode):
		return "it has no argument for the " + codeWords[m.Classify] + " that classify needs"
	case file != "" && !slices.Contains(h.Arguments, file):
		return fmt.Sprintf("it has no argument %q, which validate names", file)
	}
	return ""
}

// tooOld reports whether no prefetched result would be young enough to be served.
func (m *Model) tooOld(settings PrefetchSettings) bool {
	return settings.MaxAge == 0 && !m.outlivesCall()
}

// Verdict returns the verdict without a line that would change it.
func (m *Model) Verdict(settings PrefetchSettings) Verdict {
	if !m.MayRead() {
		return Verdict{Cached: "no", Prefetched: "no, it counts as a write because " + m.whyWrite()}
	}
	v := Verdict{Cacheable: m.outlivesCall() && !settings.NoStore, Cached: "only for identical calls in flight, as no freshness is set"}
	age := "for up to " + seconds(cmp.Or(m.Cost.Freshness, settings.MaxAge))
	switch {
	case settings.NoStore:
		v.Cached = "only for identical calls in flight, as [dedup] max_bytes is 0"
	case m.Class == Pure:
		v.Cached, age = "until a write", "until a write"
	case m.Cost.Freshness > 0:
		v.Cached = seconds(m.Cost.Freshness)
	case m.BackOff:
		v.Cached = fmt.Sprintf("for a while after %d identical results in a row", m.FailFastAfter)
	}
	if m.Validate.File != "" && v.Cacheable {
		v.Cached += ", while the file that " + m.Validate.File + " names is unchanged"
	}
	if m.Classify != "" {
		v.Cached += ", for calls whose " + codeWords[m.Classify] + " is read-only"
	}
	if why := m.whyNotPrefetched(settings); why != "" {
		v.Prefetched = "no, " + why
		return v
	}
	v.Prefetchable, v.Prefetched = true, "yes, served "+age
	if m.Annotated() && !settings.Proven {
		v.Prefetched += ", once the server's first few have been compared with results of calls (shadow_labels)"
	}
	if m.Disclosure == ThirdParty {
		v.Prefetched += ", but never with arguments from results, which it would disclose to third parties"
	}
	return v
}

// whyNotPrefetched returns why calls are not prefetched; "" if they may be.
func (m *Model) whyNotPrefetched(settings PrefetchSettings) string {
	switch {
	case isFalse(m.Speculate):
		why := "speculate = false is set by " + m.Sources["speculate"]
		if strings.HasPrefix(m.Sources["speculate"], "provider ") {
			why += ", as a call that was not asked for could do harm"
		}
		return why
	case isTrue(m.Volatile):
		return "it is marked volatile by " + m.Sources["volatile"]
	case m.Cost.Dollars > settings.Dollars:
		return fmt.Sprintf("a call costs %v dollars and max_dollars_per_session is %v", m.Cost.Dollars, settings.Dollars)
	case settings.Barred != "":
		return "it is barred for good: " + settings.Barred
	case settings.AnswersDiffer && m.Annotated():
		return "it is barred: two equal calls gave different answers"
	case !m.changesNoticed(settings):
		why := "any program on this machine may change what it reads"
		if m.In(LocalDomain) {
			why = "except in turns that Claude Code's hooks report (set up by mcpschedd import --hooks), as " + why
		}
		return why
	case m.tooOld(settings):
		return "[enrichment] max_age is 0 and no freshness is set"
	}
	settings.NoBudget = settings.NoBudget && m.ValueClass != AuditOnly
	why, _ := settings.Off()
	return why
}

// whyWrite returns why a tool counts as a write.
func (m *Model) whyWrite() string {
	switch source := m.Sources["side_effect_class"]; {
	case m.mismatch != "":
		return m.mismatch
	case source == sourceDefault:
		return "nothing declares it read-only"
	case source == sourceAnnotation:
		return "its server's annotations say that it may write"
	default:
		return "it is declared " + string(m.Class) + " by " + source
	}
}

// Unclassified reports whether no layer sets the tool's class, so that it counts as a
// write.
func (m *Model) Unclassified() bool {
	return m.Class == Indeterminate && m.Classify == "" && m.Sources["side_effect_class"] == sourceDefault
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}
