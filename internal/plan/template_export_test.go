package plan

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// ParseTemplate and the functions below parse references without a plan.
func ParseTemplate(raw []byte, at string) (*Template, Defects) {
	return unambiguously(raw, at, parseTemplate)
}

func ParseRef(raw []byte, at string) (*Ref, Defects) { return unambiguously(raw, at, parseRef) }

func ParseCondition(raw []byte, at string) (*Condition, Defects) {
	return unambiguously(raw, at, parseCondition)
}

// unambiguously parses a part of a plan as Parse does.
func unambiguously[T any](raw []byte, at string, parse func(node, func(string) bool) *T) (of *T, wrong Defects) {
	if !jsonrpc.Valid(raw) {
		return nil, Defects{{Pointer: at, Message: "invalid JSON"}}
	}
	v := node{place{problems: &problems{}, pointer: at}, raw}
	if !ambiguous(trimmed(raw), v.place) {
		of = parse(v, nil)
	}
	return of, v.problems.defects()
}

// Fill resolves the references of a template in the values of their steps.
func (t *Template) Fill(look Lookup, want *schema.Schema, most int) ([]byte, error) {
	return t.Resolve(func(r *Ref) (Value, error) { return resolveRef(r, look) }, want, most)
}

var ResolveRef = resolveRef
