package clients

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/secret"
	"mcpschedd/internal/tomlblock"
)

// Options configures how files are read.
type Options struct {
	Machine
	ReadFile func(path string) ([]byte, error) // reads other files that a client's file refers to

	// WithoutToken imports a URL without a token in its headers, with a note. Otherwise such
	// a server stays with its client, which may sign in to it by a browser.
	WithoutToken bool
}

// Reader collects the servers of one or more files. The zero value is not usable.
type Reader struct {
	options Options
	docs    map[string]*document
	others  map[string]*document // other files that those refer to; nil if unreadable
	servers []Server
	names   map[string]bool
	notes   []string
	self    map[string]bool // files with an entry of mcpschedd itself, for all servers, among those for all folders
}

// NewReader returns a Reader that has read nothing.
func NewReader(o Options) *Reader {
	return &Reader{
		options: o, docs: make(map[string]*document), others: make(map[string]*document),
		names: make(map[string]bool), self: make(map[string]bool),
	}
}

// Servers returns the servers that were read. A server with identical entries in several
// files occurs several times, with one name. Later methods use the caller's changes to
// the slice's elements.
func (r *Reader) Servers() []Server { return r.servers }

// Notes returns the notes about files and entries that were left out, each on one line.
func (r *Reader) Notes() []string { return r.notes }

// note adds a note. where is FILE or FILE:LINE, and perhaps a pointer in it.
func (r *Reader) note(where, text string) { r.notes = append(r.notes, oneLine(where+": "+text)) }

// ErrNoServers is the error for a file without servers, which Read wraps.
var ErrNoServers = errors.New(`no servers: want them under "mcpServers", "servers", "mcp", "context_servers" or [mcp_servers]`)

// table is an object of servers by name.
type table struct {
	doc      *document
	path     []string
	client   *Client
	scope    string                 // see [Origin]
	base     string                 // folder of the project that it belongs to; "" if none
	inputs   map[string]string      // that VS Code asks its user for: id → default
	disabled []string               // names of servers that are switched off elsewhere than in their entries
	includes func(name string) bool // nil means all
}

// Read reads the servers of a file with an absolute path. An invalid server is left out
// with a note, and so is a table of servers for one folder. Read returns an error if the
// file cannot be parsed, its servers are not an object, or not blocks of TOML, or it has none
// ([ErrNoServers]); then it has read no server.
func (r *Reader) Read(path string, data []byte) error {
	doc, err := parse(path, data)
	if err != nil {
		return err
	}
	if _, ok := doc.tree.(map[string]any); !ok {
		return fmt.Errorf("%s: want an object, have %s", doc.where(), kindOf(doc.tree))
	}
	found := 0
	var wrong error // the first table that is left out
	for _, t := range r.tables(doc) {
		where := t.doc.where(t.path...) + ": " + pointer(t.path...)
		servers, err := t.servers()
		if err != nil {
			wrong = cmp.Or(wrong, fmt.Errorf("%s: %w", where, err))
			if t.doc == doc && t.scope != "local" { // it is the first, and the one that is edited
				return wrong
			}
			r.note(where, "left out: "+err.Error())
			continue
		}
		if doc.toml && len(servers) > 0 { // else no server could be taken out of it
			if _, err := tomlblock.Of(doc.text, t.path...); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		found += len(servers)
		for _, name := range t.doc.names(t.path) {
			if t.includes == nil || t.includes(name) {
				r.server(t, name, servers[name])
			}
		}
	}
	r.docs[path] = doc
	if found == 0 {
		return cmp.Or(wrong, fmt.Errorf("%s: %w", path, ErrNoServers))
	}
	return nil
}

// servers returns the entries of a table by their names.
func (t table) servers() (map[string]any, error) {
	if name := t.doc.repeated(t.path); name != "" {
		return nil, fmt.Errorf("want one member %q on the way to the servers, have several", shown(name))
	}
	value := at(t.doc.tree, t.path...)
	servers, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object of servers by their names, have %s", kindOf(value))
	}
	return servers, nil
}

// tables returns the tables of servers in a file.
func (r *Reader) tables(doc *document) (all []table) {
	client, path := clientOf(doc)
	t := table{doc: doc, path: path, client: client, base: r.project(doc.path), inputs: make(map[string]string)}
	list, _ := at(doc.tree, "inputs").([]any)
	for _, input := range list {
		if id, ok := at(input, "id").(string); ok {
			t.inputs[id], _ = at(input, "default").(string)
		}
	}
	isClaude := at(doc.tree, "projects") != nil && client.Name == "claude"
	switch {
	case isClaude:
		t.scope = "user"
	case t.base != "":
		t.scope = "project"
	}
	for _, name := range doc.names(path) {
		if forbids(doc, name) || client.Name == "gemini" && r.disabledByCommand(name) {
			t.disabled = append(t.disabled, name)
		}
	}
	if t.base != "" && filepath.Base(doc.path) == ".mcp.json" {
		d := r.decisions(t.base, r.other(filepath.Join(r.options.folder("CLAUDE"), ".claude.json")))
		t.disabled = append(d.off, d.rejected...)
	}
	if at(doc.tree, path...) != nil {
		all = append(all, t)
	}
	if isClaude {
		all = append(all, r.local(doc, client)...)
	}
	return all
}

// disabledByCommand reports whether a server is off because of gemini mcp disable.
func (r *Reader) disabledByCommand(name string) bool {
	doc := r.other(filepath.Join(r.options.Home, ".gemini", "mcp-server-enablement.json"))
	return doc != nil && at(doc.tree, strings.ToLower(name), "enabled") == false
}

// other returns another file that a client's file refers to; nil if it does not exist or
// cannot be read.
func (r *Reader) other(path string) *document {
	doc, known := r.others[path]
	if known {
		return doc
	}
	if data, err := r.options.ReadFile(path); err == nil {
		if doc, err = parse(path, data); err != nil {
			doc = nil
			r.note(path, "not read: "+err.Error())
		}
	}
	r.others[path] = doc
	return doc
}

// projectFile matches the files of projects; group 1 is the project's folder.
var projectFile = regexp.MustCompile(`^(.*?)[/\\](?:\.mcp\.json|opencode\.jsonc?|\.(?:cursor|vscode|windsurf|gemini|roo|zed|codex|qwen|amazonq|opencode|kiro[/\\]settings)[/\\][^/\\]*)$`)

// project returns the folder of the project that a file belongs to, to which its
// relative paths refer; "" for a file of the user or of the machine, or if unknown.
func (r *Reader) project(path string) string {
	isUsers := func(c *Client) bool { return slices.Contains(c.Places(r.options.Machine), path) }
	m := projectFile.FindStringSubmatch(path)
	if m == nil || m[1] == filepath.Clean(r.options.Home) || slices.ContainsFunc(All(), isUsers) ||
		m[1] == "/etc/opencode" || path == filepath.Clean(r.options.Env("OPENCODE_CONFIG")) {
		return ""
	}
	return m[1]
}

// server reads one entry.
func (r *Reader) server(t table, name string, value any) {
	e := newEntry(r.options.Machine, t, name)
	pointer, line := e.server.From.Pointer, t.doc.where(append(slices.Clip(t.path), name)...)
	fields, ok := value.(map[string]any)
	if !ok {
		r.note(line+": "+pointer, "left out: want an object, have "+kindOf(value))
		return
	}
	if fields["command"] != nil { // else there is no process that could fill them in
		e.t.own, _ = fields["env"].(map[string]any)
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if fields[key] != nil {
			e.field(key, fields[key])
		}
	}
	why := ""
	switch {
	case len(e.problems) > 0:
		for _, p := range e.problems {
			r.note(line, "left out: "+p)
		}
		return
	case e.isSelf():
		r.self[t.doc.path] = r.self[t.doc.path] || t.scope != "local" && e.servesAll()
		why = "this is mcpschedd itself"
	default:
		why = e.complete(r.options)
	}
	if why != "" {
		r.note(t.doc.path+": "+pointer, "left out: "+why)
		return
	}
	if without := t.foldersWithout(name); len(without) > 0 && len(without) == len(t.doc.projects()) {
		e.server.Block.Disabled = true
	} else if len(without) > 0 {
		e.t.note("it is switched off in %s, but mcpschedd offers it there too", shown(strings.Join(without, ", ")))
	}
	if e.server.Block.Disabled {
		e.t.note("it is switched off in %s, and so here", t.client.Title)
	}
	if t.client.Name == "opencode" && namesTools(t.doc, name) || refusesTools(t.doc, name) {
		e.server.Stays = cmp.Or(e.server.Stays, `rules under "tools" or "permission(s)" name its tools, and would not hold for those of mcpschedd`)
	}
	if len(e.ignored) > 0 {
		e.t.note("not imported: %s", strings.Join(e.ignored, ", "))
	}
	for _, v := range e.t.used {
		if _, isOurs := e.server.Variables.value(v.name); !isOurs {
			e.server.environment = append(e.server.environment, v.name)
		}
	}
	r.add(*e.server)
}

// add names a server. Equal servers of several files get one name.
func (r *Reader) add(s Server) {
	same := slices.IndexFunc(r.servers, func(o Server) bool {
		return o.From.entry == s.From.entry && o.Stays == s.Stays &&
			reflect.DeepEqual(o.Block, s.Block) && reflect.DeepEqual(o.Variables, s.Variables)
	})
	if same >= 0 {
		s.Name = r.servers[same].Name
	} else {
		s.Name = r.freeName(s, func(string) bool { return true })
	}
	s.Called = cmp.Or(s.Called, s.Name)
	r.servers = append(r.servers, s.WithName(s.Name))
}

// AssignNames names the servers again: as known says, or else with a name that is free and that no
// other server has. A name is in [Server.Name] and in [Server.File].
func (r *Reader) AssignNames(known func(Server) string, free func(name string) bool) {
	clear(r.names)
	names := make(map[string]string) // earlier → new: equal servers keep one name
	for i, s := range r.servers {
		if names[s.Name] == "" {
			names[s.Name] = known(s)
		}
		if names[s.Name] == "" {
			names[s.Name] = r.freeName(s, free)
		}
		r.servers[i] = s.WithName(names[s.Name])
	}
}

// freeName returns a name that no other server has, and reserves it.
func (r *Reader) freeName(s Server, free func(name string) bool) string {
	name := s.Plain()
	for n := 2; r.names[strings.ToLower(name)] || !free(name); n++ {
		name = fmt.Sprintf("%s-%d", s.Plain(), n)
	}
	r.names[strings.ToLower(name)] = true
	return name
}

// WithName returns the server with another name.
func (s Server) WithName(name string) Server {
	s.Name, s.File = name, "env/"+name+".env"
	return s
}

var (
	notInUpstream = regexp.MustCompile(`[^A-Za-z0-9_]+`)
	underscores   = regexp.MustCompile(`__+`)
)

// Plain returns the name that the server has as an upstream if no other one has it: letters,
// digits, "-", and single "_" inside.
func (s Server) Plain() string {
	name := strings.Trim(underscores.ReplaceAllString(notInUpstream.ReplaceAllString(s.Called, "-"), "_"), "-_")
	if name == "" || name == "plan" { // plan__NAME are the named plans
		name = strings.TrimPrefix(name+"-server", "-")
	}
	return name
}

// shown returns a name from a file for printing: on one line and without secrets.
func shown(s string) string {
	for _, p := range slices.Backward(secret.Find(s, "")) {
		s = s[:p.From] + "…" + s[p.To:]
	}
	return oneLine(s)
}

// oneLine returns foreign text, such as the name of a file or server, for a comment or a
// line of output: each unprintable character, including line ends, becomes a question
// mark.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}
