package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// firstDifference compares two JSON values token by token, the members of an
// object in their order and numbers as they are written. It returns "" if they
// are the same, else a JSON pointer and what stands there. If prefix is not "",
// the value at /name must have it in front, and nothing else.
func firstDifference(want, got []byte, prefix string) string {
	w, g := tokens(want), tokens(got)
	path := pointer{}
	for {
		a, aerr := w.Token()
		b, berr := g.Token()
		switch {
		case aerr == io.EOF && berr == io.EOF:
			return ""
		case aerr != nil || berr != nil:
			return fmt.Sprintf("%s: got %s, want %s", path, shown(b, berr), shown(a, aerr))
		}
		isName := path.value(a)
		if s, ok := a.(string); ok && prefix != "" && !isName && path.String() == "/name" {
			a = prefix + s
		}
		if a != b {
			if !isName {
				path.value(b) // the pointer to a member too many is its own
			}
			return fmt.Sprintf("%s: got %s, want %s", path, shown(b, nil), shown(a, nil))
		}
		path.past(a, isName)
	}
}

func tokens(b []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d
}

// shown writes a token for a person.
func shown(t json.Token, err error) string {
	switch t := t.(type) {
	case string:
		s := []rune(t)
		if len(s) > 60 {
			return strconv.Quote(string(s[:60])) + "…"
		}
		return strconv.Quote(t)
	case nil:
		switch err {
		case nil:
			return "null"
		case io.EOF:
			return "nothing"
		}
		return err.Error()
	}
	return fmt.Sprint(t)
}

// pointer is where in a value the next token stands: one level for each open
// object or array.
type pointer []level

type level struct {
	object bool
	name   string // of the member whose value comes next, in an object
	wants  bool   // an object: a name comes next, or its end
	index  int    // of the element that comes next, in an array
}

// value notes the token about to be compared, and says whether it is a member's
// name.
func (p pointer) value(t json.Token) (isName bool) {
	if len(p) == 0 {
		return false
	}
	top := &p[len(p)-1]
	s, ok := t.(string)
	if top.object && top.wants && ok {
		top.name = s
		return true
	}
	return false
}

// past moves behind a token.
func (p *pointer) past(t json.Token, isName bool) {
	if isName {
		(*p)[len(*p)-1].wants = false
		return
	}
	switch t {
	case json.Delim('{'):
		*p = append(*p, level{object: true, wants: true})
		return
	case json.Delim('['):
		*p = append(*p, level{})
		return
	case json.Delim('}'), json.Delim(']'):
		*p = (*p)[:len(*p)-1]
	}
	if len(*p) > 0 {
		top := &(*p)[len(*p)-1]
		top.wants = top.object
		top.index++
	}
}

func (p pointer) String() string {
	var b strings.Builder
	for _, l := range p {
		b.WriteByte('/')
		if l.object {
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(l.name))
		} else {
			b.WriteString(strconv.Itoa(l.index))
		}
	}
	return b.String()
}

// missing says what of the capabilities want is not in got, as a JSON pointer,
// or "": a proxy may offer more than a server does, never less.
func missing(want, got any, path string) string {
	w, ok := want.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(want, got) && want != false {
			return fmt.Sprintf("%s: got %v, want %v", path, got, want)
		}
		return ""
	}
	g, ok := got.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s: got %v, want an object", path, got)
	}
	for name, value := range w {
		has, ok := g[name]
		if !ok {
			return fmt.Sprintf("%s/%s: got nothing, want %v", path, name, value)
		}
		if d := missing(value, has, path+"/"+name); d != "" {
			return d
		}
	}
	return ""
}
