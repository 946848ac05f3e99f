package jsonrpc

import "iter"

// Member is one member of an object.
type Member struct {
	Name  []byte // the key, unescaped; a slice of the object unless it had escapes
	Value []byte // the value, without surrounding white space
	Raw   []byte // `"key": value` as written
}

// Members yields the members of obj in order; none if obj is no object. obj must
// be valid JSON, such as a part of a parsed [Message].
func Members(obj []byte) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		eachMember(obj, yield)
	}
}

func eachMember(obj []byte, yield func(Member) bool) {
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		if !yield(p.member(obj)) {
			return
		}
	}
}

// Elements yields the elements of arr in order, without surrounding white space;
// none if arr is no array. arr must be valid JSON.
func Elements(arr []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		eachElement(arr, yield)
	}
}

func eachElement(arr []byte, yield func([]byte) bool) {
	i := space(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return
	}
	for {
		i = space(arr, i+1)
		end := skipValue(arr, i)
		if end == i || !yield(arr[i:end:end]) {
			return
		}
		if i = space(arr, end); i >= len(arr) || arr[i] != ',' {
			return
		}
	}
}

// Get returns the value of the first member of obj that is called name; nil if
// there is none or obj is no object. obj must be valid JSON.
func Get(obj []byte, name string) []byte {
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		if p.named(obj, name) {
			return obj[p.value:p.valueEnd:p.valueEnd]
		}
	}
	return nil
}

// Set returns a copy of obj in which the member called name has the value, which
// must be valid JSON: in its old place, else as the last one. All other bytes are
// as they were, except that a repetition of the member goes. obj must be valid
// JSON; what is no object (nil, null) counts as an empty one.
func Set(obj []byte, name string, value []byte) []byte {
	out := make([]byte, 0, len(obj)+len(name)+len(value)+len(`{"":,}`))
	last, found := place{}, false
	done := 0 // obj[:done] is in out
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		switch {
		case !p.named(obj, name):
		case !found:
			out = append(out, obj[done:p.value]...)
			out = append(out, value...)
			done, found = p.valueEnd, true
		default:
			out = append(out, obj[done:last.valueEnd]...)
			done = p.valueEnd
		}
		last = p
	}
	if found {
		return append(out, obj[done:]...)
	}

	i := space(obj, 0)
	switch {
	case last.valueEnd > 0:
		done = last.valueEnd
		out = append(out, obj[:done]...)
		out = append(out, ',')
	case i < len(obj) && obj[i] == '{':
		done = i + 1
		out = append(out, obj[:done]...)
	default:
		obj = []byte("}")
		out = append(out, '{')
	}
	out = AppendString(out, name)
	out = append(out, ':')
	out = append(out, value...)
	return append(out, obj[done:]...)
}

// Delete returns obj without the members whose unescaped name matches, and obj
// itself if there are none. Other members keep their bytes. obj must be valid
// JSON.
func Delete(obj []byte, match func(name []byte) bool) []byte {
	var out []byte // nil until something is left out
	kept, end := 0, 0
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		end = p.after
		switch gone := match(p.name(obj)); {
		case gone && out == nil:
			out = append(make([]byte, 0, len(obj)), obj[:p.before]...)
			if kept == 0 {
				out = append(out, '{')
			}
		case gone:
		case out == nil:
			kept++
		default:
			if kept > 0 {
				out = append(out, ',')
			}
			out = append(out, obj[p.before+1:p.after]...)
			kept++
		}
	}
	if out == nil {
		return obj
	}
	return append(out, obj[end:]...)
}

// place says where a member stands in its object.
type place struct {
	before          int // the brace or comma before it
	key, keyEnd     int // with the quotes
	value, valueEnd int
	after           int // the comma or brace behind it
}

func firstMember(obj []byte) (place, bool) {
	i := space(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return place{}, false
	}
	return memberAfter(obj, i)
}

func nextMember(obj []byte, p place) (place, bool) {
	if p.after >= len(obj) || obj[p.after] != ',' {
		return place{}, false
	}
	return memberAfter(obj, p.after)
}

// memberAfter finds the member behind the brace or comma at obj[i].
func memberAfter(obj []byte, i int) (place, bool) {
	p := place{before: i}
	p.key = space(obj, i+1)
	if p.key >= len(obj) || obj[p.key] != '"' {
		return p, false
	}
	p.keyEnd = skipString(obj, p.key)
	if i = space(obj, p.keyEnd); i >= len(obj) {
		return p, false
	}
	p.value = space(obj, i+1)
	p.valueEnd = skipValue(obj, p.value)
	p.after = space(obj, p.valueEnd)
	return p, p.valueEnd > p.value
}

func (p place) member(obj []byte) Member {
	return Member{
		Name:  p.name(obj),
		Value: obj[p.value:p.valueEnd:p.valueEnd],
		Raw:   obj[p.key:p.valueEnd:p.valueEnd],
	}
}

// name returns the unescaped key.
func (p place) name(obj []byte) []byte {
	raw := obj[p.key+1 : p.keyEnd-1 : p.keyEnd-1]
	if !escaped(raw) {
		return raw
	}
	return appendUnescaped(nil, raw)
}

func (p place) named(obj []byte, name string) bool {
	raw := obj[p.key+1 : p.keyEnd-1]
	if !escaped(raw) {
		return string(raw) == name
	}
	return string(appendUnescaped(nil, raw)) == name
}
