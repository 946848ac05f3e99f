package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// recordedTools returns the upstream of all tools of a trace: that of a coding client, with
// everything it reads and writes in one domain. It is exclusive, as nothing else changes what a
// recorded call reads.
func recordedTools() valuemodel.Upstream {
	return valuemodel.Upstream{Name: "trace", Provider: "claude-code", Domain: "trace"}
}

// settingsOf returns the replay's options and policy from the named configuration files, or the
// default one, and then from --set; later ones win.
func settingsOf(f *replayFlags) (o replay.Options, a replay.Arm, err error) {
	c := config.Default()
	var list []valuemodel.Rule
	files := f.configs
	if len(files) == 0 {
		files = []string{""}
	}
	over := func(next *config.Config, err error) error {
		if err == nil {
			c, list = next, append(list, next.Rules()...)
		}
		return err
	}
	for _, file := range files {
		if err := over(loadWith(file, c.Load)); err != nil {
			return o, a, err
		}
	}
	for _, set := range f.sets {
		if err := over(setting(c, set)); err != nil {
			return o, a, usage("--set: %v", err)
		}
	}
	models, problems := valuemodel.Compile(list)
	if len(problems) > 0 {
		return o, a, errors.New(problems[0].Text)
	}
	e := &c.Enrichment
	o = replay.Options{
		Model: func(tool string) *valuemodel.Model {
			return models.Resolve(recordedTools(), tool, valuemodel.Hints{})
		},
		Learn: e.Learn && f.policy != "static", ShadowLabels: e.ShadowLabels,
		MaxAge:    e.Age(true), // as recordedTools
		KeepTurns: f.keepTurns, Think: f.think,
	}
	a = replay.Arm{Name: f.policy, Rules: *e, Store: c.Dedup.Options}
	switch {
	case f.policy == "off" || e.Mode == "off":
		a.Source = replay.Nothing
	case f.policy == "oracle":
		a.Source = replay.Oracle
	}
	return o, a, nil
}

// setting parses KEY=VALUE as a one-line file over a base configuration. A string need not be
// quoted.
func setting(base *config.Config, text string) (*config.Config, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil, fmt.Errorf("want KEY=VALUE, have %q", text)
	}
	section, _, _ := strings.Cut(strings.TrimSpace(key), ".")
	if played := []string{"enrichment", "dedup", "tools"}; !slices.Contains(played, section) {
		return nil, fmt.Errorf("%s: want a key of enrichment, dedup or tools: others have no effect on a replay", key)
	}
	c, err := base.Parse("--set", []byte(key+" = "+value))
	if bad, ok := errors.AsType[*config.Error](err); ok && bad.Problems[0].Column > 0 {
		c, err = base.Parse("--set", []byte(key+" = "+strconv.Quote(value)))
	} else if quoted, wrong := base.Parse("--set", []byte(key+" = "+strconv.Quote(value))); err != nil && wrong == nil {
		c, err = quoted, nil // such as max_bytes=0, as a shell removes the quotes of "0"
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		p := bad.Problems[0]
		return nil, fmt.Errorf("%s: %s", cmp.Or(p.Key, strconv.Quote(text)), p.Message)
	}
	return c, err
}
