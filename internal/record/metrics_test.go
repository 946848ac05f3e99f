//go:build !lean

package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// One field with its tags adds a metric to all outputs.
func TestNewMetricIsEverywhere(t *testing.T) {
	type totals struct {
		Totals
		Extra int64 `json:"extra" jsonschema:"More than before." csv:"extra_column" text:"extra: %d more" prom:"extra_total"`
	}
	v := totals{Extra: 7}
	all, of := metricsOf(reflect.TypeFor[totals](), ""), reflect.ValueOf(v)

	schema := schemaOf(reflect.TypeFor[totals]())
	if got := schema.Properties["extra"]; got.Description != "More than before." || !slices.Contains(schema.Required, "extra") {
		t.Errorf("JSON Schema: got %v", got)
	}
	if text, _ := json.Marshal(v); !strings.Contains(string(text), `"extra":7`) {
		t.Errorf("JSON: got %s", text)
	}
	names, values := columns(all, of)
	if at := slices.Index(names, "extra_column"); at < 0 || values[at] != "7" {
		t.Errorf("CSV: got %v, %v", names, values)
	}
	if got := rows(all, of); !slices.Contains(got, row{"extra", "7 more"}) {
		t.Errorf("text: got %v", got)
	}
	words, _ := json.Marshal(all)
	if !strings.Contains(string(words), `{"name":"extra","help":"More than before."}`) {
		t.Errorf("the dashboard's words: got %s", words)
	}
	to := make(chan prometheus.Metric, 100)
	out := samples{helpOf(all), to}
	out.add(all, of)
	close(to)
	var found dto.Metric
	for m := range to {
		if strings.Contains(m.Desc().String(), `fqName: "mcpschedd_extra_total", help: "More than before."`) {
			m.Write(&found)
		}
	}
	if found.GetCounter().GetValue() != 7 {
		t.Errorf("Prometheus and OTLP: got %v", &found)
	}
}

// All tags are valid: each family and row of a tag appears in an output.
func TestTags(t *testing.T) {
	help := helpOf(statsMetrics(), hostMetrics(), poolMetrics())
	for _, m := range slices.Concat(statsMetrics(), hostMetrics(), poolMetrics()) {
		if m.row != "" && !slices.Contains(rowOrder, m.row) {
			t.Errorf("%s: no row %q", m.Name, m.row)
		}
		if m.Name != "-" && !strings.HasSuffix(m.Name, ".-") && m.Help == "" {
			t.Errorf("%s: not described", m.Name)
		}
		for _, tag := range m.prom {
			for _, l := range tag.labels {
				if l.value != "" && help[tag.name] == m.Help {
					t.Errorf("%s: the family %s is declared nowhere", m.Name, tag.name)
				}
			}
		}
	}
	for _, key := range []string{"unsteady", "not_speculatable", "low_probability", "gate"} {
		if Reasons[key].Word == "" || Reasons[key].Word == key {
			t.Errorf("%s: no words for people", key)
		}
	}
}
