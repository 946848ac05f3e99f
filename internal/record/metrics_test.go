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

// A metric is added to all outputs by one field with its tags.
func TestNewMetricIsEverywhere(t *testing.T) {
	type totals struct {
		Totals
		Extra int64 `json:"extra" jsonschema:"More than before." prom:"counter"`
	}
	v := totals{Extra: 7}
	all := metricsOfType[totals]()

	schema := schemaOf(reflect.TypeFor[totals]())
	if got := schema.Properties["extra"]; got.Description != "More than before." || !slices.Contains(schema.Required, "extra") {
		t.Errorf("JSON Schema: got %v", got)
	}
	if text, _ := json.Marshal(v); !strings.Contains(string(text), `"extra":7`) {
		t.Errorf("JSON: got %s", text)
	}
	figures := figuresOf(v)
	at := slices.IndexFunc(figures, func(f figure) bool { return f.Name == "extra" })
	if at < 0 || figures[at].text() != "7" {
		t.Errorf("text and CSV: got %v", figures)
	}
	words, _ := json.Marshal(all)
	if !strings.Contains(string(words), `{"name":"extra","help":"More than before."}`) {
		t.Errorf("the dashboard's words: got %s", words)
	}
	to := make(chan prometheus.Metric, 100)
	collect(to, all, prefix, v, nil)
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

// Each metric is described.
func TestTags(t *testing.T) {
	for _, m := range slices.Concat(metricsOfType[Stats](), metricsOfType[Figures](), metricsOfType[Host](), metricsOfType[PoolBudget]()) {
		if m.Help == "" {
			t.Errorf("%s: not described", m.Name)
		}
	}
}
