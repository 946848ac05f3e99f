package main

import (
	"go/types"
	"strings"
)

const (
	manyFields  = 15
	manyMethods = 25
)

// exported returns the number of names that other packages may use: those of the package, and
// methods of its exported types.
func exported(p *types.Package) int {
	n := 0
	for _, name := range p.Scope().Names() {
		is := p.Scope().Lookup(name)
		if !is.Exported() {
			continue
		}
		n++
		if t, ok := is.(*types.TypeName); ok && !t.IsAlias() {
			if named, ok := t.Type().(*types.Named); ok {
				for m := range named.Methods() {
					if m.Exported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// wide returns the types of a package with too many fields or methods.
func wide(p *types.Package, module string) []Wide {
	out := []Wide{}
	for _, name := range p.Scope().Names() {
		t, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() {
			continue
		}
		w := Wide{name, fields(t.Type(), module, nil), methods(t.Type(), module)}
		if w.Fields > manyFields || w.Methods > manyMethods {
			out = append(out, w)
		}
	}
	return out
}

// fields returns the number of fields of a struct. An embedded struct of the same module counts
// with its own fields.
func fields(t types.Type, module string, around []types.Type) int {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return 0
	}
	for _, outer := range around {
		if types.Identical(outer, t) {
			return 0 // a type that embeds a pointer to itself
		}
	}
	n := 0
	for f := range s.Fields() {
		inner := 0
		if f.Embedded() && ours(f.Type(), module) {
			inner = fields(f.Type(), module, append(around, t))
		}
		n += max(inner, 1)
	}
	return n
}

// methods returns the number of methods of a type or of a pointer to it, with promoted ones; of
// those that other modules declare, only exported ones.
func methods(t types.Type, module string) int {
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	n := 0
	for m := range types.NewMethodSet(t).Methods() {
		if is := m.Obj(); is.Exported() || is.Pkg() != nil && within(is.Pkg().Path(), module) {
			n++
		}
	}
	return n
}

// ours reports whether a type, or the type that it points to, is declared in the module.
func ours(t types.Type, module string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && within(named.Obj().Pkg().Path(), module)
}

func within(path, module string) bool {
	return path == module || strings.HasPrefix(path, module+"/")
}
