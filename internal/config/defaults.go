package config

import "math"

// Default is the configuration without a file: the one place of defaults.
// What every upstream and limit starts from stands in fill.
func Default() *Config {
	return &Config{
		SchemaVersion: 1,
		Server: Server{
			NameStyle:       "auto",
			Tools:           "all",
			StartupWait:     1500 * millisecond,
			StartTimeout:    30 * second,
			DrainTimeout:    5 * second,
			MaxMessageBytes: 64 * mebibyte,
		},
		HTTP: HTTP{Auth: "token", SessionIdle: 30 * minute, MaxSessions: 256},
		Enrichment: Enrichment{
			Mode:                 "on",
			Delivery:             "silent",
			MaxParallel:          3,
			MaxParallelTotal:     16,
			BudgetTokens:         8000,
			MinProbability:       0.30,
			InlineMinProbability: 0.80,
			MaxAge:               30 * second,
			WasteMS:              50,
			SecondWorthUSD:       0.01,
			ShadowLabels:         5,
			Learn:                true,
		},
		Dedup: Dedup{
			MaxBytes:    256 * mebibyte,
			WriteSettle: 60 * second,
			Settle:      2 * second,
			Repeat:      "body",
		},
		Plan: Plan{
			Mutations:      "confirm",
			MaxSteps:       100,
			MaxParallel:    8,
			MaxDepth:       32,
			MaxResultBytes: 16 * mebibyte,
			BudgetTokens:   10000,
			HandleTTL:      30 * minute,
			Reserve:        0.25,
		},
		Telemetry: Telemetry{Events: "on", RecordArguments: "hash"},
		Log:       Log{Level: "info"},
	}
}

// fill gives upstreams and limits the defaults that the file leaves open;
// stated tells which keys it has.
func (c *Config) fill(dir string, stated func(key string) bool) {
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Dir = dir
		if !stated(join("upstreams", u.Name, "enabled")) {
			u.Enabled = true
		}
		if u.Instances == "" {
			u.Instances = "session"
			if u.URL != "" {
				u.Instances = "shared"
			}
		}
		if len(u.Tools.Allow) == 0 && !stated(join("upstreams", u.Name, "tools", "allow")) {
			u.Tools.Allow = []string{"*"}
		}
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Burst == 0 && l.Rate > 0 {
			l.Burst = int(math.Min(max(1, math.Ceil(l.Rate)), math.MaxInt32))
		}
		if l.SpeculativeShare == 0 {
			l.SpeculativeShare = 0.5
		}
	}
}
