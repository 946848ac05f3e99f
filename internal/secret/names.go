package secret

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// kind is the classification of a name: the rule by which its value is a secret, and when. The
// zero kind means that the name says nothing.
type kind struct {
	rule string
	how  how
}

// how is the condition under which a value is a secret; names.txt explains it.
type how string

const (
	sure   how = "sure"
	loud   how = "loud"
	likely how = "likely"
	header how = "header"
	path   how = "path"
	count  how = "count"
	way    how = "way"
	bare   how = "bare"
	pin    how = "pin"
	only   how = "only"
	user   how = "user" // a user and, after a colon, a password
)

var (
	plain        = kind{}
	userPassword = kind{"password", user}
)

//go:embed names.txt
var namesFile string

// naming is the parsed table of names.
type naming struct {
	parts, ends []namedKind
	words       map[string]kind
	lists       map[string]map[string]bool // list → words
	flags       map[string]flag            // program → option
}

type namedKind struct {
	text string
	kind kind
}

// flag is an option of one letter with a password.
type flag struct {
	letter byte
	kind   kind
	joined bool // the password is joined to the option
}

var names = sync.OnceValue(func() *naming {
	n := &naming{words: make(map[string]kind), lists: make(map[string]map[string]bool), flags: make(map[string]flag)}
	for line := range strings.Lines(namesFile) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "list":
			if n.lists[f[1]] == nil {
				n.lists[f[1]] = make(map[string]bool)
			}
			for _, w := range f[2:] {
				n.lists[f[1]][w] = true
			}
			continue
		case "flag":
			k := kind{"password", sure}
			if f[2] == "user" {
				k = userPassword
			}
			for _, program := range f[3:] {
				n.flags[program] = flag{f[1][0], k, f[2] == "joined"}
			}
			continue
		}
		k := kind{f[2], how(f[1])}
		for _, w := range f[3:] {
			switch f[0] {
			case "part":
				n.parts = append(n.parts, namedKind{w, k})
			case "end":
				n.ends = append(n.ends, namedKind{w, k})
			case "word":
				n.words[w] = k
			}
		}
	}
	return n
})

// among reports whether a text is in a list of words, ignoring case.
func among(list, s string) bool { return names().lists[list][strings.ToLower(s)] }

const maxName = 64 // bytes at the end of a name that are examined

// classify returns the kind of a name.
func classify(name string) kind {
	var buf [8]string
	all := words(buf[:0], name)
	if n := len(all); n > 1 && names().lists["about"][all[n-1]] || strings.Contains(name, markBegin) {
		return plain
	}
	return kindOf(all)
}

// phrase classifies a description, such as "Password field", which may end in any word.
func phrase(text string) kind {
	if strings.Contains(text, markBegin) {
		return plain
	}
	var buf [8]string
	return kindOf(words(buf[:0], text))
}

// isAbout reports whether a name denotes a property of a secret, not the secret.
func isAbout(name string) bool {
	var buf [8]string
	all := words(buf[:0], name)
	return len(all) > 0 && names().lists["about"][all[len(all)-1]]
}

func kindOf(words []string) kind {
	table, joined := names(), strings.Join(words, "")
	for _, p := range table.parts {
		if strings.Contains(joined, p.text) {
			return p.kind
		}
	}
	for i, w := range slices.Backward(words) {
		if k := table.word(w); k != plain {
			return table.beside(k, words[:i], words[i+1:])
		}
	}
	return plain
}

func (n *naming) word(w string) kind {
	if k, ok := n.words[w]; ok {
		return k
	}
	for _, e := range n.ends {
		if strings.HasSuffix(w, e.text) && !n.lists["notpass"][w] {
			return e.kind
		}
	}
	return plain
}

// beside returns the kind of a word of kind k in the context of its neighbours.
func (n *naming) beside(k kind, before, after []string) kind {
	last, next := "", ""
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	if len(after) > 0 {
		next = after[0]
	}
	switch {
	case k.rule == "key" && last == "":
		return kind{k.rule, bare}
	case k.rule == "key":
		if n.lists["things"][last] {
			return plain
		}
	case n.lists["counted"][last] || n.lists["counted"][next]:
		return plain
	}
	return k
}

// words splits a name, written like_this, like-this, likeThis or LikeTHIS2, into lower-case
// words. It reads only the end of a long name.
func words(dst []string, name string) []string {
	name = name[max(0, len(name)-maxName):]
	from := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && letter(name[i]) && !(i > from && hump(name, i)) {
			continue
		}
		if i > from {
			dst = append(dst, strings.ToLower(name[from:i]))
		}
		from = i
		if i < len(name) && !letter(name[i]) {
			from++
		}
	}
	return dst
}

func letter(c byte) bool  { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool   { return c >= '0' && c <= '9' }
func capital(c byte) bool { return c >= 'A' && c <= 'Z' }
func small(c byte) bool   { return c >= 'a' && c <= 'z' }

// hump reports whether a new word begins at the letter s[i].
func hump(s string, i int) bool {
	return capital(s[i]) && (small(s[i-1]) || i+1 < len(s) && small(s[i+1]))
}
