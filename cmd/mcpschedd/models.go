package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/valuemodel"
)

// models compiles the [tools.*] blocks. Its problems are those of toolProblems, without those of
// plans and providers.
func models(c *config.Config) (*valuemodel.Models, []config.Problem) {
	list, problems := rules(c)
	m, found := valuemodel.Compile(list)
	for _, p := range found {
		problems = append(problems, ruleProblem(c, p))
	}
	return m, problems
}

// toolProblems finds mistakes in the settings of tools, plans and providers.
func toolProblems(c *config.Config) []config.Problem {
	_, problems := models(c)
	problems = append(problems, planProblems(c)...)
	for _, u := range c.Upstreams {
		if u.Provider == "" || u.Provider == valuemodel.NoProvider {
			continue
		}
		if all := valuemodel.ProviderNames(); !slices.Contains(all, u.Provider) {
			hint := ""
			if near := nearest.New(all).To(u.Provider); near != "" {
				hint = fmt.Sprintf("; did you mean %q?", near)
			}
			problems = append(problems, c.Problem(config.Key("upstreams", u.Name, "provider"), "no provider model is named %q%s", u.Provider, hint))
		}
	}
	return problems
}

// ruleProblem returns a rule's problem with its position in the file.
func ruleProblem(c *config.Config, p valuemodel.Problem) config.Problem {
	t, problem := toolBlock(c, p.Rule)
	key := config.Key("tools", t.Name)
	if p.Key != "" {
		key += "." + p.Key
	}
	return problem(key, "%s", p.Text)
}

// toolBlock returns the block of a rule, and the function that makes problems of its file.
func toolBlock(c *config.Config, rule int) (config.Tool, func(key, format string, args ...any) config.Problem) {
	if tuned := rule - len(c.Tools); tuned >= 0 {
		return c.Tuned[tuned], c.TunedProblem
	}
	return c.Tools[rule], c.Problem
}

// rules returns the [tools.*] blocks as layers, in the order of the file, followed by those of
// tuned.toml.
func rules(c *config.Config) (all []valuemodel.Rule, problems []config.Problem) {
	for i := range len(c.Tools) + len(c.Tuned) {
		t, problem := toolBlock(c, i)
		key := config.Key("tools", t.Name)
		r := valuemodel.Rule{Pattern: t.Name, Source: c.Where(key), Layer: layer(t)}
		if i >= len(c.Tools) {
			r.Source, r.Tuned = "tuned", true
		}
		for n, f := range t.FollowUp {
			r.Layer.FollowUps = append(r.Layer.FollowUps, followUp(f, func(name string, err error) {
				problems = append(problems, problem(fmt.Sprintf("%s.follow_up[%d].%s", key, n, name), "%v", err))
			}))
		}
		all = append(all, r)
	}
	return all, problems
}

// layer converts a [tools.*] block, without its follow-ups.
func layer(t config.Tool) valuemodel.Layer {
	l := valuemodel.Layer{
		ValueClass:      valuemodel.ValueClass(t.ValueClass),
		Class:           valuemodel.Class(t.SideEffectClass),
		Classify:        valuemodel.Classify(t.Classify),
		Host:            strings.ToLower(t.RateLimitHost),
		Speculate:       t.Speculate,
		Disclosure:      valuemodel.Disclosure(t.Disclosure),
		Volatile:        t.Volatile,
		FailFastAfter:   t.FailFastAfterN,
		InvalidatesOnly: t.InvalidatesOnly,
		ValidateFile:    t.Validate.File,
		Cost: valuemodel.Cost{
			TypicalKB: t.CostModel.TypicalKB,
			MaxKB:     t.CostModel.MaxKB,
			Latency:   span(t.CostModel.LatencyMSP50, time.Millisecond),
			Dollars:   t.CostModel.Dollars,
			Freshness: span(t.CostModel.FreshnessTTLS, time.Second),
		},
	}
	for _, i := range t.Invalidates {
		l.Invalidates = append(l.Invalidates, valuemodel.Edge{Tool: i.Tool, Match: i.Match})
	}
	for name, g := range t.FieldGroups {
		if l.FieldGroups == nil {
			l.FieldGroups = make(map[string]valuemodel.FieldGroup, len(t.FieldGroups))
		}
		l.FieldGroups[name] = valuemodel.FieldGroup(g)
	}
	return l
}

// followUp converts a follow-up. It passes errors of its arguments to wrong, with their keys
// relative to the follow-up.
func followUp(f config.FollowUp, wrong func(key string, err error)) valuemodel.FollowUp {
	out := valuemodel.FollowUp{Tool: f.Tool, Probability: f.Probability, Args: make(map[string]valuemodel.Binding, len(f.Args)), Max: f.Max}
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		b, err := valuemodel.ParseBinding(f.Args[name])
		if out.Args[name] = b; err != nil {
			wrong(config.Key("args", name), err)
		}
	}
	if f.Projection != "" && f.ProjectionArg != "" {
		b, err := valuemodel.ProjectionBinding(f.Projection)
		if out.Args[f.ProjectionArg] = b; err != nil {
			wrong("projection", err)
		}
	}
	return out
}

// span returns n units of time, limited to the longest Duration.
func span(n float64, unit time.Duration) time.Duration {
	if n >= float64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n * float64(unit))
}

// limits converts the [limits.*] blocks.
func limits(c *config.Config) map[string]limit.Rule {
	out := make(map[string]limit.Rule, len(c.Limits)) // host → pace
	for _, l := range c.Limits {
		name := l.Name
		if !strings.HasPrefix(name, "upstream:") { // names of upstreams are case-sensitive
			name = strings.ToLower(name)
		}
		out[name] = limit.Rule{
			Rate: l.Rate, Burst: l.Burst, Concurrency: l.Concurrency,
			SpeculativeShare: l.SpeculativeShare, SpeculativePerHour: l.SpeculativePerHour,
		}
	}
	return out
}
