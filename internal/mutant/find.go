package mutant

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
)

// edit replaces one place in a file.
type edit struct {
	in       *source
	from, to int
	text     string
}

// find returns the edits of a cut, or an error if there are none.
func (c *code) find(cut Cut) ([]edit, error) {
	of := cmp.Or(cut.Call, cut.Compare, cut.Read, cut.Set)
	within, err := c.functions(cut.Under, true)
	if err != nil {
		return nil, err
	}
	except, err := c.functions(cut.Except, false)
	if err != nil {
		return nil, err
	}
	var found []edit
	for f, decl := range c.bodies {
		if len(cut.Under) > 0 && !within[f] || except[f] {
			continue
		}
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			if place, base := c.place(cut, n); place != nil {
				found = append(found, c.edit(place, base, cut.Becomes))
			}
			return true
		})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("package %s: the rule is missing or renamed: %s under %v", c.name, of, cut.Under)
	}
	return found, nil
}

// functions returns the functions with the given names, where a type means its methods. If
// reached is set, it includes all functions that these reach.
func (c *code) functions(names []string, reached bool) (map[*types.Func]bool, error) {
	in := make(map[*types.Func]bool)
	for _, name := range names {
		n := len(in)
		for f := range c.bodies {
			if full := c.function(f); full == name || strings.HasPrefix(full, name+".") {
				in[f] = true
			}
		}
		if len(in) == n {
			return nil, fmt.Errorf("package %s: there is no function or method %s", c.name, name)
		}
	}
	for grown := reached; grown; {
		grown = false
		for f := range in {
			ast.Inspect(c.bodies[f].Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if g, ok := c.info.Uses[id].(*types.Func); ok && c.bodies[g.Origin()] != nil && !in[g.Origin()] {
						in[g.Origin()], grown = true, true
					}
				}
				return true
			})
		}
	}
	return in, nil
}

// place returns the node that a cut replaces if n is one of its places, and the operand before
// the dot.
func (c *code) place(cut Cut, n ast.Node) (place ast.Node, base ast.Expr) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if cut.Call != "" && c.names(n.Fun, cut.Call) && (cut.With == "" || slices.ContainsFunc(n.Args, func(a ast.Expr) bool { return c.names(a, cut.With) })) {
			return n, before(n.Fun)
		}
	case *ast.BinaryExpr:
		compares := slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ}, n.Op)
		if cut.Compare != "" && compares && (c.names(n.X, cut.Compare) || c.names(n.Y, cut.Compare)) {
			return n, nil
		}
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if cut.Set != "" && c.names(left, cut.Set) {
				return n, before(left)
			}
		}
	case *ast.IncDecStmt:
		if cut.Set != "" && c.names(n.X, cut.Set) {
			return n, before(n.X)
		}
	case *ast.SelectorExpr:
		if cut.Read != "" && c.names(n, cut.Read) {
			return n, n.X
		}
	}
	return nil, nil
}

// before returns the operand before the dot, or nil.
func before(e ast.Expr) ast.Expr {
	if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok {
		return s.X
	}
	return nil
}

// names reports whether an expression is the named function, method or field.
func (c *code) names(e ast.Expr, name string) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if s, is := ast.Unparen(e).(*ast.SelectorExpr); is {
		id, ok = s.Sel, true
	}
	if !ok {
		return false
	}
	switch o := c.info.Uses[id].(type) {
	case *types.Func:
		return c.function(o.Origin()) == name
	case *types.Var:
		return c.fields[o.Origin()] != "" && c.qualified(o, c.fields[o.Origin()]+"."+o.Name()) == name
	}
	return false
}

// function returns the name of a function, with the receiver's type for a method.
func (c *code) function(f *types.Func) string {
	name := f.Name()
	if recv := f.Signature().Recv(); recv != nil {
		t := recv.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if named, ok := t.(*types.Named); ok {
			name = named.Obj().Name() + "." + name
		}
	}
	return c.qualified(f, name)
}

// qualified returns a name with its package, unless that is c's.
func (c *code) qualified(o types.Object, name string) string {
	if o.Pkg() == nil || o.Pkg() == c.pkg {
		return name
	}
	return o.Pkg().Name() + "." + name
}

// edit returns the replacement of a place.
func (c *code) edit(place ast.Node, base ast.Expr, becomes string) edit {
	file := c.fset.Position(place.Pos()).Filename
	e := edit{in: c.sources[slices.IndexFunc(c.sources, func(s *source) bool { return s.path == file })]}
	text := func(n ast.Node) string {
		return string(e.in.code[c.fset.Position(n.Pos()).Offset:c.fset.Position(n.End()).Offset])
	}
	e.from, e.to = c.fset.Position(place.Pos()).Offset, c.fset.Position(place.End()).Offset
	e.text = os.Expand(strings.ReplaceAll(becomes, "$&", "${all}"), func(name string) string {
		switch {
		case name == "all":
			return text(place)
		case name == "x" && base != nil:
			return text(base)
		}
		if called, ok := place.(*ast.CallExpr); ok && len(name) == 1 && '1' <= name[0] && int(name[0]-'1') < len(called.Args) {
			return text(called.Args[name[0]-'1'])
		}
		return "$" + name // does not compile
	})
	return e
}
