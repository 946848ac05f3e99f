package predict_test

import (
	"testing"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Check applies the rules to a waiting candidate with the current model and schema.
func TestAgain(t *testing.T) {
	const takes, other = `{"properties":{"n":{"type":"integer"}}}`, `{"properties":{"n":{"type":"boolean"}}}`
	rules := func(get valuemodel.Layer) []valuemodel.Rule {
		return []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result[*]")), {Pattern: "get", Layer: get}}
	}
	reads := valuemodel.Layer{Class: valuemodel.ReadOnly}
	for _, test := range []struct {
		name   string
		change func(*predict.Model, offer)
		want   enrich.Reason
	}{
		{"nothing happens", func(*predict.Model, offer) {}, ""},
		{"its rules are read anew", func(_ *predict.Model, o offer) { o["get"] = resolve(t, hub, rules(reads), "get", takes)["get"] }, ""},
		{"its tool is barred", func(f *predict.Model, _ offer) { f.Bar("get", "it asked something") }, enrich.NotSpeculatable},
		{"its tool gave two answers, and the operator says that it reads", func(f *predict.Model, _ offer) { f.RecordTrial("get", false) }, ""},
		{"its tool is gone", func(_ *predict.Model, o offer) { delete(o, "get") }, enrich.NotSpeculatable},
		{"its tool writes now", func(_ *predict.Model, o offer) {
			o["get"] = resolve(t, hub, rules(valuemodel.Layer{Class: valuemodel.MutatesExternal}), "get", takes)["get"]
		}, enrich.NotSpeculatable},
		{"its tool takes something else", func(_ *predict.Model, o offer) { o["get"] = resolve(t, hub, rules(reads), "get", other)["get"] }, enrich.Schema},
		{"its tool tells third parties", func(_ *predict.Model, o offer) {
			o["get"] = resolve(t, hub, rules(valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty}), "get", takes)["get"]
		}, enrich.Disclosure},
		{"its tool is known from annotations only", func(_ *predict.Model, o offer) { get := o["get"]; get.Annotated = true; o["get"] = get }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := resolve(t, hub, rules(reads), "list", "", "get", takes)
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", `{}`, `[1,2]`)
			waits := p.candidates()[1]
			test.change(p.f, o)
			if got := p.s.Check(&waits); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if test.want == "" && waits.Model != o["get"].Model {
				t.Error("got an old model, want the current one")
			}
			if allocs := testing.AllocsPerRun(1, func() { p.s.Check(&waits) }); test.want == "" && allocs > 0 {
				t.Errorf("got %v allocations, want no second check of the same arguments", allocs)
			}
		})
	}
}
