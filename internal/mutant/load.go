package mutant

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// code is a package whose types are known, as far as its own module says them.
type code struct {
	name    string // below internal
	fset    *token.FileSet
	pkg     *types.Package
	info    types.Info
	sources []*source
	bodies  map[*types.Func]*ast.FuncDecl
	fields  map[*types.Var]string // field → the name of its struct
}

// source is one file.
type source struct {
	path string
	code []byte
	ast  *ast.File
}

// loaded are the packages that mutants have been looked for in.
var loaded sync.Map // package → func() (*code, error)

// load type-checks a package below internal, once.
func load(name string) (*code, error) {
	once, _ := loaded.LoadOrStore(name, sync.OnceValues(func() (*code, error) {
		root, module, err := home()
		if err != nil {
			return nil, err
		}
		return check(root, module, name)
	}))
	return once.(func() (*code, error))()
}

// home is the folder of the module that the test runs in, and its name.
func home() (dir, module string, err error) {
	if dir, err = os.Getwd(); err != nil {
		return "", "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			module, _, _ = strings.Cut(strings.TrimPrefix(string(text), "module "), "\n")
			return dir, strings.TrimSpace(module), nil
		}
		if dir == filepath.Dir(dir) {
			return "", "", fmt.Errorf("no go.mod above the test: %w", err)
		}
	}
}

// check reads a package and says what its names stand for.
func check(root, module, name string) (*code, error) {
	c := &code{
		name: name, fset: token.NewFileSet(), bodies: make(map[*types.Func]*ast.FuncDecl), fields: make(map[*types.Var]string),
		info: types.Info{
			Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
		},
	}
	dir := filepath.Join(root, "internal", filepath.FromSlash(name))
	var err error
	if c.sources, err = parse(c.fset, dir); err != nil {
		return nil, err
	}
	imports := &imports{root: root, module: module, fset: c.fset, known: make(map[string]*types.Package)}
	c.pkg = checkFiles(path.Join(module, "internal", name), c.fset, c.sources, imports, &c.info)
	imports.known[c.pkg.Path()] = c.pkg
	for _, p := range imports.known {
		if p.Path() == module || strings.HasPrefix(p.Path(), module+"/") {
			c.noteFields(p)
		}
	}
	for _, src := range c.sources {
		for _, d := range src.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				c.bodies[c.info.Defs[f.Name].(*types.Func)] = f
			}
		}
	}
	return c, nil
}

// noteFields notes which struct of the package each field belongs to.
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

// parse reads the files of a folder that are built here, without its tests.
func parse(fset *token.FileSet, dir string) ([]*source, error) {
	built, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var all []*source
	for _, name := range built.GoFiles {
		src := &source{path: filepath.Join(dir, name)}
		if src.code, err = os.ReadFile(src.path); err != nil {
			return nil, err
		}
		if src.ast, err = parser.ParseFile(fset, src.path, src.code, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		all = append(all, src)
	}
	return all, nil
}

// checkFiles type-checks files. That much is unknown of what they import is no error.
func checkFiles(name string, fset *token.FileSet, sources []*source, from types.Importer, info *types.Info) *types.Package {
	conf := types.Config{Importer: from, IgnoreFuncBodies: info == nil, FakeImportC: true, Error: func(error) {}}
	var files []*ast.File
	for _, s := range sources {
		files = append(files, s.ast)
	}
	pkg, _ := conf.Check(name, fset, files, info)
	pkg.MarkComplete()
	return pkg
}

// imports reads the packages of the module, and of the standard library those that pass
// our own types on; nothing is known of any other.
type imports struct {
	root, module string
	fset         *token.FileSet
	known        map[string]*types.Package
}

// passing are the packages of the standard library whose functions and types pass on
// the types of their callers.
var passing = []string{"cmp", "iter", "maps", "slices", "sync", "sync/atomic"}

func (i *imports) Import(name string) (*types.Package, error) {
	if p := i.known[name]; p != nil {
		return p, nil
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	i.known[name] = p
	dir := ""
	if below, ours := strings.CutPrefix(name, i.module+"/"); ours {
		dir = filepath.Join(i.root, filepath.FromSlash(below))
	} else if slices.Contains(passing, name) {
		dir = filepath.Join(build.Default.GOROOT, "src", filepath.FromSlash(name))
	}
	if dir == "" {
		return p, nil
	}
	sources, err := parse(i.fset, dir)
	if err != nil {
		return nil, err
	}
	i.known[name] = checkFiles(name, i.fset, sources, i, nil)
	return i.known[name], nil
}
