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

// firstDifference compares two JSON values token by token, with the members of objects in order
// and numbers as written. It returns "" if they are the same, else a JSON pointer and the two
// tokens there. If prefix is not "", the value at /name must differ by exactly this prefix.
func firstDifference(want, got []byte, prefix string) string {
	c := comparison{tokens(want), tokens(got), prefix}
	if d := c.value(""); d != "" {
		return d
	}
	if a, b := c.next(); a != b { // one of them continues
		return difference("", a, b)
	}
	return ""
}

func tokens(b []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d
}

// comparison reads two values in parallel.
type comparison struct {
	want, got *json.Decoder
	prefix    string
}

// end stands for a missing token.
type end string

func (c *comparison) next() (want, got json.Token) {
	read := func(d *json.Decoder) json.Token {
		t, err := d.Token()
		switch err {
		case nil:
			return t
		case io.EOF:
			return end("nothing")
		}
		return end(err.Error())
	}
	return read(c.want), read(c.got)
}

// value compares the next values, which are at a pointer.
func (c *comparison) value(at string) string {
	a, b := c.next()
	if s, ok := a.(string); ok && c.prefix != "" && at == "/name" {
		a = c.prefix + s
	}
	if _, none := a.(end); none || a != b {
		return difference(at, a, b)
	}
	switch a {
	case json.Delim('{'):
		return c.members(at)
	case json.Delim('['):
		return c.elements(at)
	}
	return ""
}

// members compares the rest of an object.
func (c *comparison) members(at string) string {
	for {
		a, b := c.next()
		name, ok := a.(string)
		if !ok {
			if name, ok = b.(string); !ok && a == b {
				return ""
			}
		}
		of := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if a != b {
			return difference(of, a, b)
		}
		if d := c.value(of); d != "" {
			return d
		}
	}
}

// elements compares the rest of an array.
func (c *comparison) elements(at string) string {
	for i := 0; ; i++ {
		of := at + "/" + strconv.Itoa(i)
		if !c.want.More() || !c.got.More() {
			if a, b := c.next(); a != b {
				return difference(of, a, b)
			}
			return ""
		}
		if d := c.value(of); d != "" {
			return d
		}
	}
}

// difference describes a difference at a pointer.
func difference(at string, want, got json.Token) string {
	return fmt.Sprintf("%s: got %s, want %s", at, shown(got), shown(want))
}

// shown formats a token for people.
func shown(t json.Token) string {
	switch t := t.(type) {
	case string:
		return fmt.Sprintf("%.60q", t)
	case nil:
		return "null"
	}
	return fmt.Sprint(t)
}

// missing returns the JSON pointer of a capability in want that is not in got, or "": a proxy may
// offer more than a server, but not less.
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
