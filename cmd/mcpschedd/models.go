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
	key := func(name string) string {
		if p.Key == "" {
			return config.Key("tools", name)
		}
		return config.Key("tools", name) + "." + p.Key
	}
	if tuned := p.Rule - len(c.Tools); tuned >= 0 {
		return tunedProblem(c, c.Tuned[tuned], key(c.Tuned[tuned].Name), p.Text)
	}
	return c.Problem(key(c.Tools[p.Rule].Name), "%s", p.Text)
}

func tunedProblem(c *config.Config, t config.Tuned, key, text string) config.Problem {
	return config.Problem{File: config.TunedPath(c.Path), Line: t.Line, Key: key, Message: text}
}

// rules returns the [tools.*] blocks as layers, in the order of the file, followed by those of
// tuned.toml.
func rules(c *config.Config) ([]valuemodel.Rule, []config.Problem) {
	var out []valuemodel.Rule
	var problems []config.Problem
	add := func(t config.Tool, r valuemodel.Rule, problem func(key, text string) config.Problem) {
		r.Pattern, r.Layer = t.Name, layer(t)
		for i, f := range t.FollowUp {
			args, wrong := bindings(f)
			for _, w := range wrong {
				problems = append(problems, problem(fmt.Sprintf("%s[%d].%s", config.Key("tools", t.Name, "follow_up"), i, w.Key), w.Message))
			}
			r.Layer.FollowUps = append(r.Layer.FollowUps, valuemodel.FollowUp{Tool: f.Tool, Probability: f.Probability, Args: args, Max: f.Max})
		}
		out = append(out, r)
	}
	for _, t := range c.Tools {
		add(t, valuemodel.Rule{Source: c.Where(config.Key("tools", t.Name))}, func(key, text string) config.Problem {
			return c.Problem(key, "%s", text)
		})
	}
	for _, t := range c.Tuned {
		cost := config.CostModel{TypicalKB: t.CostModel.TypicalKB, MaxKB: t.CostModel.MaxKB, LatencyMSP50: t.CostModel.LatencyMSP50}
		measured := config.Tool{Name: t.Name, Speculate: t.Speculate, CostModel: cost, FollowUp: t.FollowUp}
		add(measured, valuemodel.Rule{Source: "tuned", Tuned: true}, func(key, text string) config.Problem {
			return tunedProblem(c, t, key, text)
		})
	}
	return out, problems
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

// bindings parses the arguments of a follow-up. The keys of its problems are relative to the
// follow-up.
func bindings(f config.FollowUp) (args map[string]valuemodel.Binding, wrong []config.Problem) {
	args = make(map[string]valuemodel.Binding, len(f.Args))
	take := func(name, key string, b valuemodel.Binding, err error) {
		if err != nil {
			wrong = append(wrong, config.Problem{Key: key, Message: err.Error()})
			return
		}
		args[name] = b
	}
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		b, err := valuemodel.ParseBinding(f.Args[name])
		take(name, config.Key("args", name), b, err)
	}
	if f.Projection != "" && f.ProjectionArg != "" {
		b, err := valuemodel.ProjectionBinding(f.Projection)
		take(f.ProjectionArg, "projection", b, err)
	}
	return args, wrong
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
