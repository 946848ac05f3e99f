package mutant

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

// code is a type-checked package.
type code struct {
	name    string // below internal
	fset    *token.FileSet
	pkg     *types.Package
	info    *types.Info
	sources []*source
	bodies  map[*types.Func]*ast.FuncDecl
	fields  map[*types.Var]string // field → name of its struct
}

// source is one file.
type source struct {
	path string
	code []byte
}

// loaded caches the packages.
var loaded sync.Map // package → func() (*code, error)

// load type-checks a package below internal, and caches it.
func load(name string) (*code, error) {
	once, _ := loaded.LoadOrStore(name, sync.OnceValues(func() (*code, error) { return check(name) }))
	return once.(func() (*code, error))()
}

// check parses and type-checks a package without its tests.
func check(name string) (*code, error) {
	config := &packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedModule |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile,
		Env: append(os.Environ(), "CGO_ENABLED=0")} // as make test, so that what is imported is not compiled again
	listed, err := packages.Load(config, "../"+name) // of a test in another package below internal
	if err != nil {
		return nil, err
	}
	p := listed[0]
	if len(p.Errors) > 0 {
		return nil, fmt.Errorf("package %s: %w", name, p.Errors[0])
	}
	c := &code{
		name: name, fset: p.Fset, pkg: p.Types, info: p.TypesInfo,
		bodies: make(map[*types.Func]*ast.FuncDecl), fields: make(map[*types.Var]string),
	}
	for _, path := range p.GoFiles {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c.sources = append(c.sources, &source{path, text})
	}
	for _, used := range append(c.pkg.Imports(), c.pkg) {
		if strings.HasPrefix(used.Path(), p.Module.Path+"/") {
			c.noteFields(used)
		}
	}
	for _, file := range p.Syntax {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				c.bodies[c.info.Defs[f.Name].(*types.Func)] = f
			}
		}
	}
	return c, nil
}

// noteFields records the struct of each field in a package.
func (c *code) noteFields(p *types.Package) {
	for _, name := range p.Scope().Names() {
		of, ok := p.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if _, is := p.Scope().Lookup(name).(*types.TypeName); !ok || !is {
			continue
		}
		for f := range of.Fields() {
			c.fields[f] = name
		}
	}
}
