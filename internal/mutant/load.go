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

// compiled has the packages that the go command has compiled: import path → listed.
var compiled sync.Map

// load type-checks a package below internal, and caches it.
func load(name string) (*code, error) {
	once, _ := loaded.LoadOrStore(name, sync.OnceValues(func() (*code, error) { return check(name) }))
	return once.(func() (*code, error))()
}

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

func (p listed) inModule() bool { return p.Module != nil && p.Module.Main }

// list returns a package below internal. It compiles the package and its imports with the go
// command, unless it is an import of one that was compiled before.
func list(name string) (listed, error) {
	if p, ok := known(name); ok {
		return p, nil
	}
	out, err := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module", "../"+name).Output() // of a test in another package below internal
	if err != nil {
		return listed{}, fmt.Errorf("go list %s: %w", name, err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var one listed
		if err := d.Decode(&one); err != nil {
			return listed{}, err
		}
		compiled.Store(one.ImportPath, one)
	}
	p, _ := known(name)
	return p, nil
}

// known returns a compiled package below internal.
func known(name string) (p listed, ok bool) {
	compiled.Range(func(_, value any) bool {
		one := value.(listed)
		if ok = one.inModule() && strings.HasSuffix(one.ImportPath, "/internal/"+name); ok {
			p = one
		}
		return !ok
	})
	return p, ok
}

// check parses and type-checks a package without its tests.
func check(name string) (*code, error) {
	p, err := list(name)
	if err != nil {
		return nil, err
	}
	c := &code{
		name: name, fset: token.NewFileSet(), bodies: make(map[*types.Func]*ast.FuncDecl), fields: make(map[*types.Var]string),
		info: types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)},
	}
	var files []*ast.File
	for _, file := range p.GoFiles {
		src := &source{path: filepath.Join(p.Dir, file)}
		if src.code, err = os.ReadFile(src.path); err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(c.fset, src.path, src.code, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.sources, files = append(c.sources, src), append(files, parsed)
	}
	conf := types.Config{Importer: importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		of, _ := compiled.Load(path)
		return os.Open(of.(listed).Export)
	})}
	if c.pkg, err = conf.Check(p.ImportPath, c.fset, files, &c.info); err != nil {
		return nil, err
	}
	for _, used := range append(c.pkg.Imports(), c.pkg) {
		if of, _ := compiled.Load(used.Path()); of != nil && of.(listed).inModule() { // unsafe has no listing
			c.noteFields(used)
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
