package valuemodel_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

func bound(t *testing.T, value string) valuemodel.Binding {
	t.Helper()
	b, err := valuemodel.ParseBinding(value)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func explained(t *testing.T) *valuemodel.Model {
	t.Helper()
	number, literal := bound(t, "$result.items[*].number"), bound(t, "$$args")
	return resolve(t, valuemodel.Upstream{Name: "hub", URL: "https://hub.example"}, "list", valuemodel.Hints{}, rule("hub/list", "tuned", valuemodel.Layer{ValueClass: valuemodel.Critical}),
		rule("hub/*", "c.toml:3", valuemodel.Layer{
			Class: valuemodel.ReadOnly, FailFastAfter: 4,
			Cost:        valuemodel.Cost{Freshness: time.Minute, Latency: 1500 * time.Microsecond},
			Invalidates: []valuemodel.Edge{{Tool: "get", Match: []string{"id"}}, {Tool: "see"}},
			FollowUps:   []valuemodel.FollowUp{{Tool: "get", Probability: 0.4, Args: map[string]valuemodel.Binding{"n": number, "lit": literal}, Max: 3}},
			FieldGroups: map[string]valuemodel.FieldGroup{"debug": {Fields: []string{"url", "*_url"}, EstimatedValue: new(0.1), DefaultInclude: new(false)}},
		}))
}

func TestWriteTo(t *testing.T) {
	var b strings.Builder
	n, err := explained(t).WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Errorf("got %d, %v for %d bytes", n, err, b.Len())
	}
	want := `value_class                 critical                                                                     tuned
side_effect_class           read_only                                                                    c.toml:3
classify                    -                                                                            -
domain                      hub.example                                                                  upstreams.hub.url
remote                      true                                                                         upstreams.hub.url
rate_limit_host             hub.example                                                                  upstreams.hub.url
url_argument                -                                                                            -
speculate                   true                                                                         default
disclosure                  same_service                                                                 default
volatile                    false                                                                        default
fail_fast_after_n           4                                                                            c.toml:3
validate                    -                                                                            -
cost_model.typical_kb       4                                                                            default
cost_model.max_kb           40                                                                           default
cost_model.latency_ms_p50   1.5                                                                          c.toml:3
cost_model.dollars          -                                                                            -
cost_model.freshness_ttl_s  60                                                                           c.toml:3
invalidates_only            false                                                                        default
field_groups.debug          {"fields":["url","*_url"],"estimated_value":0.1,"default_include":false}                                  c.toml:3
follow_up.get               {"tool":"get","probability":0.4,"args":{"lit":"$$args","n":"$result.items[*].number"},"max":3}  c.toml:3
invalidates.get             {"tool":"get","match":["id"]}                                                                      c.toml:3
invalidates.see             {"tool":"see"}                                                                          c.toml:3
`
	squeeze := func(s string) string { // column widths do not matter here
		var lines []string
		for line := range strings.Lines(s) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}
	if diff := cmp.Diff(squeeze(want), squeeze(b.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	column := strings.Index(strings.Split(b.String(), "\n")[0], "tuned")
	for line := range strings.SplitSeq(strings.TrimSpace(b.String()), "\n") {
		if strings.HasPrefix(line, "field_groups.") {
			break // long keys have their own columns
		}
		if len(line) <= column || line[column-1] != ' ' || line[column] == ' ' {
			t.Errorf("column not aligned: %q", line)
		}
	}
}

func TestMarshalJSON(t *testing.T) {
	raw, err := json.Marshal(explained(t))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
		"upstream": "hub", "tool": "list", "provider": "", "fields": {
			"domain": {"value": "hub.example", "source": "upstreams.hub.url"},
			"remote": {"value": true, "source": "upstreams.hub.url"},
			"value_class": {"value": "critical", "source": "tuned"},
			"side_effect_class": {"value": "read_only", "source": "c.toml:3"},
			"classify": {"value": null},
			"rate_limit_host": {"value": "hub.example", "source": "upstreams.hub.url"},
			"url_argument": {"value": null},
			"speculate": {"value": true, "source": "default"},
			"disclosure": {"value": "same_service", "source": "default"},
			"volatile": {"value": false, "source": "default"},
			"fail_fast_after_n": {"value": 4, "source": "c.toml:3"},
			"validate": {"value": null},
			"cost_model.typical_kb": {"value": 4, "source": "default"},
			"cost_model.max_kb": {"value": 40, "source": "default"},
			"cost_model.latency_ms_p50": {"value": 1.5, "source": "c.toml:3"},
			"cost_model.dollars": {"value": null},
			"cost_model.freshness_ttl_s": {"value": 60, "source": "c.toml:3"},
			"field_groups.debug": {"value": {"fields": ["url", "*_url"], "estimated_value": 0.1, "default_include": false}, "source": "c.toml:3"},
			"follow_up.get lit=$$args n=$result.items[*].number": {"value": {"tool": "get", "probability": 0.4, "args": {"n": "$result.items[*].number", "lit": "$$args"}, "max": 3}, "source": "c.toml:3"},
			"invalidates.get same id": {"value": {"tool": "get", "match": ["id"]}, "source": "c.toml:3"},
			"invalidates.see": {"value": {"tool": "see"}, "source": "c.toml:3"},
			"invalidates_only": {"value": false, "source": "default"}
		}
	}`
	var got, wanted any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
