package clients

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Import settles what was read: each server has a name that no other has, and each
// secret a variable.
func (r *Reader) Import() Import {
	r.sift()
	v := variableNames{used: make(map[string]string), taken: r.references()}
	names := make(map[string]bool)
	out := Import{Notes: r.notes, Self: r.self, Servers: []Server{}}
	for _, d := range r.drafts {
		out.Servers = append(out.Servers, v.settle(d, upstreamName(shown(d.server.Was), names)))
	}
	return out
}

// sift takes out servers that are there twice, and those that others of their name in
// the same file stand before.
func (r *Reader) sift() {
	var kept []*draft
	for _, d := range r.drafts {
		twin := slices.IndexFunc(kept, func(k *draft) bool { return k.server.Was == d.server.Was && same(k, d) })
		nearer := slices.IndexFunc(kept, func(k *draft) bool {
			return k.server.Was == d.server.Was && k.server.File == d.server.File && k.server.Scope == "local" && d.server.Scope == "user"
		})
		switch {
		case twin >= 0:
			r.note(d.where, false, "left out: the same as "+kept[twin].server.Pointer+" of "+kept[twin].server.File)
		case nearer >= 0:
			r.note(d.where, false, "left out: here "+kept[nearer].server.Pointer+" stands before it")
		default:
			kept = append(kept, d)
		}
	}
	r.drafts = kept
}

// same reports whether two drafts are reached in the same way, secrets and all.
func same(a, b *draft) bool {
	return reflect.DeepEqual(a.reached(), b.reached())
}

// reached is all that a draft is reached by.
func (d *draft) reached() []string {
	var all []string
	add := func(t text) {
		for _, p := range t {
			all = append(all, p.variable, p.literal)
			if p.secret != nil {
				all = append(all, p.secret.value)
			}
		}
		all = append(all, "\x00")
	}
	for _, t := range append([]text{d.command, d.cwd, d.envFile, d.url}, d.args...) {
		add(t)
	}
	for _, pairs := range [][]named{d.env, d.headers} {
		for _, p := range slices.SortedFunc(slices.Values(pairs), func(a, b named) int { return strings.Compare(a.name, b.name) }) {
			all = append(all, p.name)
			add(p.value)
		}
		all = append(all, "\x00")
	}
	return all
}

// references are the variables that have a meaning outside of the files.
func (r *Reader) references() map[string]bool {
	taken := map[string]bool{"DOLLAR": true}
	for _, name := range r.options.Taken {
		taken[name] = true
	}
	for _, name := range []string{"PATH", "HOME", "USER", "USERPROFILE", "APPDATA", "SHELL", "PWD", "TMPDIR", "TEMP", "TMP", "LANG", "TERM", "NODE_OPTIONS", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD"} {
		taken[name] = true
	}
	for _, d := range r.drafts {
		for t := range d.texts() {
			for _, p := range *t {
				if p.variable != "" {
					taken[p.variable] = true
				}
			}
		}
	}
	return taken
}

// texts are all of a draft's.
func (d *draft) texts() func(yield func(*text) bool) {
	return func(yield func(*text) bool) {
		for _, t := range []*text{&d.command, &d.cwd, &d.envFile, &d.url} {
			if !yield(t) {
				return
			}
		}
		for i := range d.args {
			if !yield(&d.args[i]) {
				return
			}
		}
		for _, pairs := range [][]named{d.env, d.headers} {
			for i := range pairs {
				if !yield(&pairs[i].value) {
					return
				}
			}
		}
	}
}

// variableNames gives each secret its variable: of equal ones the same, if they would
// be called the same.
type variableNames struct {
	used  map[string]string // variable → secret
	taken map[string]bool
}

func (v variableNames) name(s *withheld, server string) string {
	label := s.label
	if label == "" {
		label = join(server, "SECRET")
	}
	own := label
	if !strings.HasPrefix(label, server+"_") {
		own = join(server, label)
	}
	value := s.value
	if s.asked { // of what is not known, none is equal to another
		value = s.where.doc.name + "\x00" + s.where.pointer
	}
	for n := 0; ; n++ {
		try := label
		if n > 0 {
			try = own
		}
		if n > 1 {
			try += "_" + strconv.Itoa(n)
		}
		if other, used := v.used[try]; !v.taken[try] && (!used || other == value) {
			v.used[try] = value
			return try
		}
	}
}

// settle makes a server of a draft.
func (v variableNames) settle(d *draft, name string) Server {
	s := d.server
	s.Name = name
	if s.Was == name {
		s.Was = ""
	}
	s.Was = shown(s.Was)
	s.Provider = d.provider()
	for t := range d.texts() {
		for i, p := range *t {
			one := &Variable{Name: p.variable, Asked: true}
			where := p.ask
			if p.secret != nil {
				one.Name, one.Part, one.Asked = v.name(p.secret, d.label), p.secret.part, p.secret.asked
				where = &p.secret.where
				(*t)[i] = piece{variable: one.Name}
			}
			if where != nil {
				one.File, one.Pointer = where.doc.name, shown(where.pointer)
				s.Variables = append(s.Variables, one)
			}
		}
	}
	s.Command, s.Cwd, s.EnvFile, s.URL = d.command.String(), d.cwd.String(), d.envFile.String(), d.url.String()
	for _, a := range d.args {
		s.Args = append(s.Args, a.String())
	}
	s.Env, s.Headers = settled(d.env), settled(d.headers)
	return s
}

func settled(pairs []named) []Pair {
	var all []Pair
	for _, p := range pairs {
		all = append(all, Pair{p.name, p.value.String()})
	}
	return all
}

// join is a variable's name below another.
func join(server, label string) string {
	if server == "" {
		server = "MCP"
	}
	if label == "" {
		label = "SECRET"
	}
	return server + "_" + label
}

// upstreamName is a name for [upstreams.NAME]: letters, digits and -, with single _
// inside, and none that is used.
func upstreamName(was string, used map[string]bool) string {
	var b strings.Builder
	for _, c := range was {
		switch {
		case c < 0x80 && (isLetter(byte(c)) || isDigit(byte(c))):
			b.WriteRune(c)
		case c == '_' && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		case c != '_' && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-_")
	if name == "" || name == "plan" { // plan__NAME are the named plans
		name = strings.TrimPrefix(name+"-server", "-")
	}
	unique := name
	for n := 2; used[unique]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	used[unique] = true
	return unique
}
