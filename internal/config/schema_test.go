package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpschedd/internal/config"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/valuemodel"
)

// source ignores the fields that describe the origin of a configuration.
var source = cmpopts.IgnoreFields(config.Config{}, "Path", "Digest", "Positions", "TunedPositions", "Warnings", "Models")

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Default().Parse("/etc/mcp/c.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shipped returns the reference file, and the same file with its examples uncommented. In an
// example line, # is not followed by one space, as it is in prose.
func shipped(t *testing.T) (file, examples string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "configs", "pipeline_config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data), regexp.MustCompile(`(?m)^#(\S|  )`).ReplaceAllString(string(data), "$1")
}

func TestShippedFileIsTheDefaults(t *testing.T) {
	file, _ := shipped(t)
	got := parse(t, file)
	if diff := cmp.Diff(config.Default(), got, source, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("pipeline_config.toml against Default (-want +got):\n%s", diff)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("got warnings %v, want none", got.Warnings)
	}
}

// TestShippedExamplesLoad also checks that the file contains every key of the schema, at the line
// in Positions.
func TestShippedExamplesLoad(t *testing.T) {
	_, examples := shipped(t)
	c := parse(t, examples)
	if len(c.Warnings) != 1 || c.Warnings[0].Key != "plans.heartbeat" { // because [plan] enabled is false
		t.Errorf("got warnings %v, want one about the plan", c.Warnings)
	}
	stated := map[string]bool{}
	lines := strings.Split(examples, "\n")
	// The name of a block and the index of a list match * in the schema.
	named := regexp.MustCompile(`^(upstreams|plans|limits|tools)\.("[^"]*"|[^.]+)|\[\d+\]`)
	for key, line := range c.Positions {
		pattern := named.ReplaceAllStringFunc(key, func(s string) string {
			if section, _, ok := strings.Cut(s, "."); ok {
				return section + ".*"
			}
			return ".*"
		})
		pattern = strings.Replace(pattern, ".field_groups.debug", ".field_groups.*", 1)
		stated[pattern] = true
		last := strings.Trim(key[strings.LastIndexAny(key, ".[")+1:], `"]`)
		if !strings.Contains(lines[line-1], last) && !strings.HasSuffix(key, "]") {
			t.Errorf("%s: got line %d, which is %q", key, line, lines[line-1])
		}
	}
	for _, key := range config.Schema() {
		if !stated[key] {
			t.Errorf("%s: not in pipeline_config.toml", key)
		}
	}
}

// TestShippedLinesSayWhatTheyAre checks that a comment follows every key.
func TestShippedLinesSayWhatTheyAre(t *testing.T) {
	file, _ := shipped(t)
	key := regexp.MustCompile(`^#?[a-z_0-9]+ = `)
	for i, line := range strings.Split(file, "\n") {
		if strings.HasSuffix(line, "[") || !key.MatchString(line) || line == `#tool = "get_comments"` {
			continue
		}
		if strings.Count(line[1:], "#") == 0 {
			t.Errorf("line %d: no comment: %s", i+1, line)
		}
	}
}

func TestSchemaIsWhole(t *testing.T) {
	for _, key := range []string{"schema_version", "upstreams.*.tools.allow", "tools.*.follow_up.*.args", "tools.*.field_groups.*.fields", "tools.*.validate.file"} {
		if !slices.Contains(config.Schema(), key) {
			t.Errorf("got no %s in the schema %v", key, config.Schema())
		}
	}
}

func TestEverythingStated(t *testing.T) {
	_, examples := shipped(t)
	c := parse(t, examples)
	wantUpstreams := []config.Upstream{{
		Name: "github", Dir: "/etc/mcp",
		Command: "github-mcp-server", Args: []string{"stdio", "--read-only"},
		Env:     config.Secrets{"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_TOKEN}"},
		Enabled: true, Remote: new(false), Folders: []string{}, Instances: "session",
		Tools: config.Filter{Allow: []string{"*"}, Deny: []string{"delete_*"}},
	}, {
		Name: "wiki", Dir: "/etc/mcp",
		URL: "https://wiki.example/mcp", Headers: config.Secrets{"Authorization": "Bearer ${WIKI_TOKEN}"},
		Enabled: true, Instances: "shared",
		Tools: config.Filter{Allow: []string{"*"}},
	}}
	if diff := cmp.Diff(wantUpstreams, c.Upstreams); diff != "" {
		t.Errorf("upstreams (-want +got):\n%s", diff)
	}
	wantLimits := map[string]limit.Rule{"api.github.com": {Rate: 10, Burst: 20, Concurrency: 4, SpeculativeShare: 0.5, SpeculativePerHour: 200}}
	if diff := cmp.Diff(wantLimits, c.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if got := c.Tools[0]; got.Pattern != "github/list_issues" || got.Source == "" || len(got.FollowUps) != 2 || got.Cost.Freshness != time.Minute {
		t.Errorf("got the rule %+v", got)
	}
	if got, err := json.Marshal(c.Plans[0].Steps); err != nil || string(got) != `[{"arguments":{"query":{"$ref":"params#/day"}},"id":"issues","tool":"github/search_issues"}]` {
		t.Errorf("steps: got %s, %v", got, err)
	}
	if got, err := json.Marshal(c.Plans[0].Parameters); err != nil || string(got) != `{"day":{"type":"string"}}` {
		t.Errorf("parameters: got %s, %v", got, err)
	}
}

func TestEarlierFormat(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "earlier.toml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Default().Parse("earlier.toml", data)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Telemetry.Events = "off"
	want.Enrichment.PerSession = 2
	want.Enrichment.Budget = 4000
	want.Enrichment.Wait = 150 * time.Millisecond
	want.Limits = map[string]limit.Rule{}
	read := map[string]valuemodel.Binding{"file_path": {From: valuemodel.Result, Path: []valuemodel.Step{{Name: "match_path", Deep: true}}, Source: "$result..match_path"}}
	want.Tools = []valuemodel.Rule{{
		Pattern: "Grep", Source: c.Where("tools.Grep"), Layer: valuemodel.Layer{
			ValueClass: "critical", Class: "pure",
			Cost:        valuemodel.Cost{TypicalKB: 2.5, MaxKB: 31, Latency: 120 * time.Millisecond, Freshness: 15 * time.Second},
			FieldGroups: map[string]valuemodel.FieldGroup{"must_have": {Fields: []string{"path", "line"}, EstimatedValue: new(0.9), DefaultInclude: new(true)}},
			FollowUps:   []valuemodel.FollowUp{{Tool: "Read", Probability: 0.35, Args: read}},
		},
	}, {
		Pattern: "update_issue", Source: c.Where("tools.update_issue"), Layer: valuemodel.Layer{
			Class: "mutates_external", Host: "gitlab.example.com", Speculate: new(false),
			Invalidates: []valuemodel.Edge{{Tool: "get_issue"}, {Tool: "get_issues"}},
		},
	}, {
		Pattern: "ToolSearch", Source: c.Where("tools.ToolSearch"), Layer: valuemodel.Layer{Class: "read_only", FailFastAfter: 2},
	}, {
		Pattern: "*", Source: c.Where(`tools."*"`), Layer: valuemodel.Layer{ValueClass: "supporting"},
	}}
	if diff := cmp.Diff(want, c, source, cmpopts.IgnoreFields(valuemodel.Rule{}, "Sources")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var got []string
	for _, w := range c.Warnings {
		got = append(got, w.Key)
	}
	wantWarned := []string{
		"schema_version", "dedup.lru_size", "dedup.hint_verbosity", "dedup.near_ref_enabled", "dedup.min_body_chars", "dedup.enabled_per_endpoint",
		"templates", "mckp", "telemetry.enabled", "telemetry.rotate_mib", "telemetry.sample_rate", "telemetry.flush_every_n",
		"endpoint_overrides", "profiles", "hints", "enrichment.enabled", "enrichment.prefetch_timeout_ms", "enrichment.respect_rate_limits",
	}
	if diff := cmp.Diff(wantWarned, got); diff != "" {
		t.Errorf("warned keys (-want +got):\n%s", diff)
	}
	if got, want := c.Where("enrichment.mode"), c.Where("enrichment.enabled"); got != want || got == "" {
		t.Errorf("mode: got %q, want the position of enabled, %q", got, want)
	}
}

func TestEarlierSwitches(t *testing.T) {
	off := parse(t, "[enrichment]\nenabled = false\nrespect_rate_limits = false\n")
	if off.Enrichment.Mode != "off" || len(off.Warnings) != 2 {
		t.Errorf("got mode %q and warnings %v, want off and two", off.Enrichment.Mode, off.Warnings)
	}
	if c := parse(t, "telemetry.enabled = true"); c.Telemetry.Events != "on" {
		t.Errorf("got events %q, want on", c.Telemetry.Events)
	}
}

func TestUpstreamDefaults(t *testing.T) {
	c := parse(t, `
[upstreams.z]
command = "x"
[upstreams.a]
url = "http://x.example"
instances = "session"
enabled = false
tools.deny = ["x"]
[upstreams.m]
command = "x"
tools.allow = []
`)
	var names []string
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	if diff := cmp.Diff([]string{"z", "a", "m"}, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if u := c.Upstreams[1]; u.Instances != "session" || u.Enabled || c.Positions["upstreams.a"] != 4 || u.Tools.Allows("x") || !u.Tools.Allows("y") {
		t.Errorf("got %+v, want a disabled session upstream of line 4 without the tool x", u)
	}
	if got := parse(t, "upstreams.a = { command = \"x\", domain = \"API.Example\" }").Upstreams[0].Domain; got != "api.example" {
		t.Errorf("got the domain %q, want that of a server at this host", got)
	}
	if c.Upstreams[2].Tools.Allows("x") {
		t.Error("allow = []: got x allowed, want none")
	}
}

const everyField = `[tools."hub/a"]
value_class = "critical"
side_effect_class = "indeterminate"
classify = "shell"
rate_limit_host = "API.example"
speculate = true
disclosure = "third_party"
volatile = true
fail_fast_after_n = 4
invalidates = ["b", { tool = "hub/c", match = ["id"] }]
invalidates_only = true
validate = { file = "path" }
[tools."hub/a".cost_model]
typical_kb = 1.5
max_kb = 3
latency_ms_p50 = 0.5
dollars = 0.25
freshness_ttl_s = 90
[tools."hub/a".field_groups.debug]
fields = ["*_url"]
estimated_value = 0.1
default_include = false
[[tools."hub/a".follow_up]]
tool = "b"
probability = 0.4
max = 3
args = { owner = "$args.owner", n = 7 }
[[tools."hub/a".follow_up]]
tool = "hub/c"
projection = "iid"
projection_arg = "key"
[tools."*"]
cost_model.freshness_ttl_s = 1e300
`

// TestRules checks that every key of a block sets its field of the layer.
func TestRules(t *testing.T) {
	got := parse(t, everyField).Rules()
	for key, want := range map[string]string{"classify": "/etc/mcp/c.toml:4", "cost_model.max_kb": "/etc/mcp/c.toml:15", "field_groups.debug": "/etc/mcp/c.toml:19", "follow_up": "/etc/mcp/c.toml:23"} {
		if got[0].Sources[key] != want {
			t.Errorf("%s: got the position %q, want %q", key, got[0].Sources[key], want)
		}
	}
	want := []valuemodel.Rule{{
		Pattern: "hub/a", Source: "/etc/mcp/c.toml:1",
		Layer: valuemodel.Layer{
			ValueClass: valuemodel.Critical, Class: valuemodel.Indeterminate, Classify: valuemodel.Shell,
			Host: "api.example", Speculate: new(true), Disclosure: valuemodel.ThirdParty, Volatile: new(true), FailFastAfter: 4,
			Invalidates:     []valuemodel.Edge{{Tool: "b"}, {Tool: "hub/c", Match: []string{"id"}}},
			InvalidatesOnly: new(true), Validate: valuemodel.Validate{File: "path"},
			Cost:        valuemodel.Cost{TypicalKB: 1.5, MaxKB: 3, Latency: 500 * time.Microsecond, Dollars: 0.25, Freshness: 90 * time.Second},
			FieldGroups: map[string]valuemodel.FieldGroup{"debug": {Fields: []string{"*_url"}, EstimatedValue: new(0.1), DefaultInclude: new(false)}},
			FollowUps: []valuemodel.FollowUp{
				{Tool: "b", Probability: 0.4, Max: 3, Args: map[string]valuemodel.Binding{
					"owner": {From: valuemodel.Args, Path: []valuemodel.Step{{Name: "owner"}}, Source: "$args.owner"},
					"n":     {Value: int64(7), Source: int64(7)},
				}},
				{Tool: "hub/c", Args: map[string]valuemodel.Binding{
					"key": {From: valuemodel.Result, Path: []valuemodel.Step{{Name: "iid", Deep: true}}, Source: "$result..iid"},
				}},
			},
		},
	}, {
		Pattern: "*", Source: "/etc/mcp/c.toml:32",
		Layer: valuemodel.Layer{Cost: valuemodel.Cost{Freshness: 87_600 * time.Hour}}, // the maximum
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(valuemodel.Rule{}, "Sources")); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for field, value := range reflect.ValueOf(got[0].Layer).Fields() {
		if value.IsZero() && field.Name != "URLArgument" { // no key sets URLArgument
			t.Errorf("%s: not set; is a tag missing?", field.Name)
		}
	}
}

func TestLimits(t *testing.T) {
	got := parse(t, `
[limits."API.example:8443"]
rate = 10
burst = 20
concurrency = 4
speculative_share = 0.25
speculative_per_hour = 7
[limits."upstream:Files"]
rate = 3
[limits."*"]
concurrency = 2
`).Limits
	want := map[string]limit.Rule{
		"api.example:8443": {Rate: 10, Burst: 20, Concurrency: 4, SpeculativeShare: 0.25, SpeculativePerHour: 7},
		"upstream:Files":   {Rate: 3},
		"*":                {Concurrency: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestMaxAge checks that a configured max_age applies to every upstream.
func TestMaxAge(t *testing.T) {
	for text, want := range map[string][2]time.Duration{"": {30 * time.Second, 5 * time.Minute}, `enrichment.max_age = "20s"`: {20 * time.Second, 20 * time.Second}, `enrichment.max_age = "30s"`: {30 * time.Second, 30 * time.Second}} {
		e := parse(t, text).Enrichment
		if got := [2]time.Duration{e.Age(false), e.Age(true)}; got != want {
			t.Errorf("%s: got %v, and for an exclusive upstream; want %v", text, got, want)
		}
	}
}

func TestFilterHoldsSlashes(t *testing.T) {
	f := config.Filter{Allow: []string{"*"}, Deny: []string{"delete_*", "[xy]/?"}}
	for tool, want := range map[string]bool{"get": true, "a/b": true, "delete_a": false, "delete_a/b": false, "x/1": false, "z/1": true} {
		if got := f.Allows(tool); got != want {
			t.Errorf("Allows(%q): got %v, want %v", tool, got, want)
		}
	}
}

func TestPositions(t *testing.T) {
	c := parse(t, `
[tools."a/b"]
invalidates = [
  "x",
  { tool = "y",
    match = ["m"] },
]
[[tools."a/b".follow_up]]
tool = "c"
[[tools."a/b".follow_up]]
tool = "d"
args.e = "$args.e"
[tools."a/b".cost_model]
typical_kb = 1
[plans.p]
steps = [ { id = "a", tool = "x", arguments = { n = [
   [1, 2],
   [ 3 ] ] } } ]
`)
	for key, want := range map[string]int{
		`tools."a/b"`: 2, `tools."a/b".invalidates[0]`: 4, `tools."a/b".invalidates[1].match`: 6,
		`tools."a/b".follow_up`: 8, `tools."a/b".follow_up[0].tool`: 9, `tools."a/b".follow_up[1]`: 10, `tools."a/b".follow_up[1].args.e`: 12,
		`tools."a/b".cost_model.typical_kb`: 14, `plans.p.steps[0].arguments.n[1]`: 18, `plans.p.steps[0].arguments.n[0][1]`: 17,
		`tools."a/b".value_class`: 0,
	} {
		if got := c.Positions[key]; got != want {
			t.Errorf("%s: got line %d, want %d", key, got, want)
		}
	}
	if got, want := c.Where(config.Key("tools", "a/b", "cost_model", "typical_kb")), "/etc/mcp/c.toml:14"; got != want {
		t.Errorf("Where: got %q, want %q", got, want)
	}
	if got := c.Where(`tools."a/b".speculate`); got != "" {
		t.Errorf("Where of a key that is not set: got %q, want none", got)
	}
}

func TestPathsStartAtTheFile(t *testing.T) {
	c := parse(t, "[server]\nstate_dir = \"state\"\n[log]\nfile = \"/var/log/x\"")
	if c.Server.StateDir != "/etc/mcp/state" || c.Log.File != "/var/log/x" {
		t.Errorf("got %q and %q, want /etc/mcp/state and /var/log/x", c.Server.StateDir, c.Log.File)
	}
}

func TestKeepUntilRestart(t *testing.T) {
	old := parse(t, "[server]\nname_style = \"auto\"\n[enrichment]\nmode = \"on\"")
	new := parse(t, "[enrichment]\nmode = \"off\"\n[log]\nlevel = \"debug\"\n[server]\nname_style = \"never\"\nstart_timeout = \"1s\"\n[http]\nallowed_origins = [\"http://a\"]\n[upstreams.a]\ncommand = \"x\"")
	want := []string{"server.name_style", "server.start_timeout", "http.allowed_origins"}
	if diff := cmp.Diff(want, new.KeepUntilRestart(old)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if new.Server.NameStyle != "auto" || len(new.HTTP.AllowedOrigins) > 0 || new.Enrichment.Mode != "off" || new.Log.Level != "debug" {
		t.Errorf("got %+v, %+v, mode %q and level %q; want server and http of the start, and the rest new", new.Server, new.HTTP, new.Enrichment.Mode, new.Log.Level)
	}
	if got := new.KeepUntilRestart(old); got != nil {
		t.Errorf("once more: got %v, want nothing", got)
	}
	const store = "[dedup]\nstore = \"valkey://host\"\n"
	old, new = parse(t, store), parse(t, store+"write_settle = \"5s\"")
	if got := new.KeepUntilRestart(old); !slices.Equal(got, []string{"dedup.write_settle"}) || new.Dedup.WriteSettle != old.Dedup.WriteSettle {
		t.Errorf("write_settle with a store: got %v and %v, want that of the start", got, new.Dedup.WriteSettle)
	}
	old, new = parse(t, ""), parse(t, "[dedup]\nwrite_settle = \"5s\"")
	if got := new.KeepUntilRestart(old); got != nil {
		t.Errorf("write_settle without a store: got %v, want nothing", got)
	}
}
