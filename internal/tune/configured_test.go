package tune_test

import (
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

// configured is a block as the configuration would have it: it must be TOML.
func configured(t testing.TB, b tune.Block) (l valuemodel.Layer) {
	t.Helper()
	for _, line := range b.Lines {
		if line.Advice {
			continue
		}
		var doc struct{ V any }
		if _, err := toml.Decode("V = "+line.Value, &doc); err != nil {
			t.Fatalf("%s = %s: %v", line.Key, line.Value, err)
		}
		n, _ := doc.V.(float64)
		if whole, ok := doc.V.(int64); ok {
			n = float64(whole)
		}
		switch line.Key {
		case "cost_model.typical_kb":
			l.Cost.TypicalKB = n
		case "cost_model.max_kb":
			l.Cost.MaxKB = n
		case "cost_model.latency_ms_p50":
			l.Cost.Latency = time.Duration(n * float64(time.Millisecond))
		case "speculate":
			l.Speculate = new(doc.V.(bool))
		case "invalidates":
			l.Invalidates = append(l.Invalidates, valuemodel.Edge{Tool: doc.V.(string)})
		case "follow_up":
			l.FollowUps = append(l.FollowUps, followUp(t, doc.V.(map[string]any)))
		default:
			t.Fatalf("%s: nothing such is configured", line.Key)
		}
	}
	return l
}

func followUp(t testing.TB, v map[string]any) valuemodel.FollowUp {
	t.Helper()
	f := valuemodel.FollowUp{Tool: v["tool"].(string), Max: int(v["max"].(int64)), Args: map[string]valuemodel.Binding{}}
	switch p := v["probability"].(type) {
	case float64:
		f.Probability = p
	case int64:
		f.Probability = float64(p)
	}
	for name, arg := range v["args"].(map[string]any) {
		b, err := valuemodel.ParseBinding(arg)
		if err != nil {
			t.Fatal(err)
		}
		f.Args[name] = b
	}
	return f
}
