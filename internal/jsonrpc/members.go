package jsonrpc

import "iter"

// Member is one member of an object.
type Member struct {
	Name  []byte // unescaped key; a slice of the object unless the key has escapes
	Value []byte // without surrounding white space
	Raw   []byte // `"key": value` as written
}

// Members yields the members of obj in order; none if obj is not an object. obj must
// be valid JSON, such as a part of a parsed [Message].
func Members(obj []byte) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
			if !yield(p.member(obj)) {
				return
			}
		}
	}
}

// Names yields the names of the members of obj, like [Members].
func Names(obj []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for m := range Members(obj) {
			if !yield(string(m.Name)) {
				return
			}
		}
	}
}

// Elements yields the elements of arr in order, without surrounding white space;
// none if arr is not an array. arr must be valid JSON.
func Elements(arr []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
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
}

// Split yields the elements of a batch, an array that is valid JSON, and otherwise b itself.
func Split(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if i := space(b, 0); i == len(b) || b[i] != '[' || !Valid(b) {
			yield(b)
			return
		}
		Elements(b)(yield)
	}
}

// Get returns the value of the first member of obj called name, or nil if there is
// none or obj is not an object. obj must be valid JSON. Several lookups in one object
// are cheaper with an [Index].
func Get(obj []byte, name string) []byte {
	for p, ok := firstMember(obj); ok; p, ok = nextMember(obj, p) {
		if p.named(obj, name) {
			return p.of(obj)
		}
	}
	return nil
}

// Set returns a copy of obj in which the member called name has the given value, which
// must be valid JSON. A new member is added at the end. Other members keep their text
// and order; repetitions of name and white space between members are removed. obj must
// be valid JSON; nil, or a value that is not an object, counts as an empty object.
func Set(obj []byte, name string, value []byte) []byte {
	x := NewIndex(obj)
	return x.Set(name, value)
}

// Delete returns obj without the members with an unescaped name that matches, or obj itself if
// there are none. Other members keep their text. obj must be valid JSON.
func Delete(obj []byte, match func(name []byte) bool) []byte {
	for m := range Members(obj) {
		if match(m.Name) {
			return Rewrite(obj, func(m Member) []byte {
				if match(m.Name) {
					return nil
				}
				return m.Value
			})
		}
	}
	return obj
}

// Rewrite returns a copy of obj, a valid object, in which each member has the value
// that the function returns for it. A member with a nil value is omitted. White space
// between members is removed.
func Rewrite(obj []byte, value func(Member) []byte) []byte {
	x := NewIndex(obj)
	return append(x.rewrite(0, value), '}')
}

// rewrite is [Rewrite] without the closing brace, with spare capacity for more bytes.
func (x *Index) rewrite(more int, value func(Member) []byte) []byte {
	out := append(make([]byte, 0, len(x.obj)+more), '{')
	for _, p := range x.spans {
		if v := value(p.member(x.obj)); v != nil {
			out = append(append(comma(out), x.obj[p.key:p.value]...), v...)
		}
	}
	return out
}

// AppendMember appends a member to dst, an object without its closing brace.
func AppendMember(dst []byte, name string, value []byte) []byte {
	dst = append(AppendString(comma(dst), name), ':')
	return append(dst, value...)
}

// Append appends the member's text to dst, an object without its closing brace.
func (m Member) Append(dst []byte) []byte { return append(comma(dst), m.Raw...) }

// comma appends a comma to dst, an object without its closing brace, unless dst has no
// members.
func comma(dst []byte) []byte {
	if dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}

// span is the position of a member in its object, in bytes.
type span struct {
	key, keyEnd     int // with the quotes
	value, valueEnd int
}

// shift moves the span by that many bytes.
func (p *span) shift(by int) {
	p.key, p.keyEnd, p.value, p.valueEnd = p.key+by, p.keyEnd+by, p.value+by, p.valueEnd+by
}

func firstMember(obj []byte) (span, bool) { return memberAfter(obj, 0, '{') }

func nextMember(obj []byte, p span) (span, bool) { return memberAfter(obj, p.valueEnd, ',') }

// memberAfter returns the member after the brace or comma at obj[i], or after white space there; false
// if there is none.
func memberAfter(obj []byte, i int, mark byte) (p span, ok bool) {
	i = space(obj, i)
	if i >= len(obj) || obj[i] != mark {
		return p, false
	}
	p.key = space(obj, i+1)
	if p.key >= len(obj) || obj[p.key] != '"' {
		return p, false
	}
	p.keyEnd = skipString(obj, p.key)
	colon := space(obj, p.keyEnd)
	if colon >= len(obj) {
		return p, false
	}
	p.value = space(obj, colon+1)
	p.valueEnd = skipValue(obj, p.value)
	return p, p.valueEnd > p.value
}

func (p span) member(obj []byte) Member {
	return Member{Name: p.name(obj), Value: p.of(obj), Raw: obj[p.key:p.valueEnd:p.valueEnd]}
}

// of returns the value.
func (p span) of(obj []byte) []byte { return obj[p.value:p.valueEnd:p.valueEnd] }

// name returns the unescaped key.
func (p span) name(obj []byte) []byte {
	raw := obj[p.key:p.keyEnd:p.keyEnd]
	if escaped(raw) {
		return []byte(unquote(raw))
	}
	return raw[1 : len(raw)-1]
}

func (p span) named(obj []byte, name string) bool { return string(p.name(obj)) == name }
