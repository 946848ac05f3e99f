package valuemodel_test

import (
	"fmt"
	"testing"

	"mcpschedd/internal/valuemodel"
)

func BenchmarkResolve(b *testing.B) {
	var rules []valuemodel.Rule
	for i := range 500 {
		rules = append(rules,
			rule(fmt.Sprintf("hub/tool_%d", i), "c:1", valuemodel.Layer{ValueClass: valuemodel.Critical}),
			rule(fmt.Sprintf("*/tool_%d*", i), "c:2", valuemodel.Layer{Class: valuemodel.ReadOnly}))
	}
	models, _ := valuemodel.Compile(rules)
	b.ReportAllocs()
	for b.Loop() {
		models.Resolve(valuemodel.Upstream{Name: "hub", Provider: "github"}, "tool_7", valuemodel.Hints{})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		valuemodel.Compile(nil)
	}
}

func BenchmarkPlaces(b *testing.B) {
	plain := resolve(b, valuemodel.Upstream{Name: "up"}, "t", valuemodel.Hints{})
	github := valuemodel.Upstream{Name: "up", Provider: "github"}
	matched := resolve(b, github, "get_issue", valuemodel.Hints{})
	write := resolve(b, github, "update_issue", valuemodel.Hints{})
	args := arguments(b, `{"owner":"o","repo":"r","issue_number":42}`)
	b.Run("reads", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			plain.Reads(args)
		}
	})
	b.Run("reads, matched", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			matched.Reads(args)
		}
	})
	b.Run("writes, matched", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			write.Writes(args)
		}
	})
}

func TestReadsOfAToolNobodyNamesAllocatesNothing(t *testing.T) {
	m := resolve(t, valuemodel.Upstream{Name: "up"}, "t", valuemodel.Hints{})
	args := arguments(t, `{"id":1}`)
	if n := testing.AllocsPerRun(100, func() { m.Reads(args) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
