package plan

import (
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// What the tests of references look at, where nothing is known of any plan.
func ParseTemplate(raw []byte, at string) (*Template, Defects) {
	return unambiguously(raw, at, parseTemplate)
}

func ParseRef(raw []byte, at string) (*Ref, Defects) { return unambiguously(raw, at, parseRef) }

func ParseCondition(raw []byte, at string) (*Condition, Defects) {
	return unambiguously(raw, at, parseCondition)
}

// unambiguously reads a part of a plan as Parse does.
func unambiguously[T any](raw []byte, at string, parse func([]byte, string, func(string) bool) (*T, Defects)) (*T, Defects) {
	if !jsonrpc.Valid(raw) {
		return nil, Defects{{Pointer: at, Message: "no valid JSON"}}
	}
	wrong := &problems{}
	if ambiguous(trimmed(raw), place{problems: wrong, pointer: at}) {
		return nil, wrong.told()
	}
	return parse(raw, at, nil)
}

// Fill resolves the references of a template in the values of their steps.
func (t *Template) Fill(look Lookup, want *schema.Schema, most int) ([]byte, error) {
	return t.Resolve(func(r *Ref) (Value, error) { return resolveRef(r, look) }, want, most)
}

var ResolveRef = resolveRef
