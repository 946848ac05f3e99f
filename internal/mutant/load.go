package mutant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// code is a type-checked package.
type code struct {
	name    string // below internal
	fset    *token.FileSet
	pkg     *types.Package
	info    types.Info
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

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  *struct{ Main bool }
}

// list compiles a package of the current module and its imports with the go command. It returns
// the package, and the imports by path.
func list(name string) (p listed, imported map[string]listed, err error) {
	module, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		return p, nil, fmt.Errorf("go list -m: %w", err)
	}
	out, err := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module",
		path.Join(strings.TrimSpace(string(module)), "internal", name)).Output()
	if err != nil {
		return p, nil, fmt.Errorf("go list %s: %w", name, err)
	}
	imported = make(map[string]listed)
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var one listed
		if err := d.Decode(&one); err != nil {
			return p, nil, err
		}
		if imported[one.ImportPath] = one; !one.DepOnly {
			p = one
		}
	}
	return p, imported, nil
}

// check parses and type-checks a package without its tests.
func check(name string) (*code, error) {
	listed, imported, err := list(name)
	if err != nil {
		return nil, err
	}
	c := &code{
		name: name, fset: token.NewFileSet(), bodies: make(map[*types.Func]*ast.FuncDecl), fields: make(map[*types.Var]string),
		info: types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)},
	}
	var files []*ast.File
	for _, file := range listed.GoFiles {
		src := &source{path: filepath.Join(listed.Dir, file)}
		if src.code, err = os.ReadFile(src.path); err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(c.fset, src.path, src.code, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.sources, files = append(c.sources, src), append(files, parsed)
	}
	conf := types.Config{Importer: importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(imported[path].Export) })}
	if c.pkg, err = conf.Check(listed.ImportPath, c.fset, files, &c.info); err != nil {
		return nil, err
	}
	for _, p := range append(c.pkg.Imports(), c.pkg) {
		if of := imported[p.Path()]; of.Module != nil && of.Module.Main {
			c.noteFields(p)
		}
	}
	for _, file := range files {
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
