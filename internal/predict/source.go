package predict

import (
	"strconv"
	"strings"
)

// origin is the kind of source of an argument's value.
type origin byte

const (
	fromConstant  origin = 'k' // a constant
	fromCarried   origin = 'c' // the last value of an argument of the same name
	fromArgument  origin = 'a' // an argument of the trigger
	fromResult    origin = 'r' // the result of the trigger
	fromElsewhere origin = 'e' // the newest result of another tool
)

// Values of valueSource.Pick: which value of a list.
const (
	first  = 0
	last   = -1
	every  = -2 // each value makes a candidate
	beside = -3 // the value in the same array element as the driving one
)

// valueSource describes how to find the value of one argument. It contains names and paths,
// and values only if they occurred often.
type valueSource struct {
	From  origin
	Name  string // of the argument, or path of the values in a result
	Tool  string // of fromElsewhere
	Pick  int    // for fromResult and fromElsewhere
	Dir   origin // directory to prepend: a constant, an argument, or (fromResult) the directory of an argument; zero for none
	Base  string // the constant directory, or the name of the argument
	Plus  string // name of a second argument of the trigger to add
	Value scalar // of fromConstant
}

// key returns a unique key of the source.
func (s *valueSource) key() string {
	var b strings.Builder
	b.WriteByte(byte(s.From))
	for _, part := range []string{s.Name, s.Tool, string(rune(s.Dir)), s.Base, s.Plus, s.Value.text} {
		b.WriteString(part)
		b.WriteByte(0)
	}
	b.WriteString(strconv.Itoa(s.Pick))
	b.WriteByte(byte(s.Value.kind))
	return b.String()
}

// value returns the value of a source that has a single value.
func (s *valueSource) value(sess *Session, e *event) (v scalar, ok bool) {
	switch s.From {
	case fromConstant:
		return s.Value, true
	case fromCarried:
		v, ok = sess.carry[s.Name]
		return v, ok
	case fromArgument:
		if v, ok = e.arg(s.Name); !ok {
			return v, false
		}
		return s.transform(v, e)
	case fromElsewhere:
		if e = sess.newest(s.Tool); e == nil {
			return v, false
		}
	}
	l := e.values.lookup(s.Name)
	if l.size() == 0 {
		return v, false
	}
	return s.transform(l.rank(s.Pick).value, e)
}

// rankOf returns the rank of the list value that the source transforms into v; -1 if none.
func (s *valueSource) rankOf(l *valueList, e *event, v scalar) int {
	for i := range l.size() {
		if got, ok := s.transform(l.rank(i).value, e); ok && got.text == v.text {
			return i
		}
	}
	return -1
}

// transform applies the addition or the directory of the source to a value.
func (s *valueSource) transform(v scalar, e *event) (scalar, bool) {
	if s.Plus != "" {
		other, ok := e.arg(s.Plus)
		if !ok {
			return v, false
		}
		return sumOf(v, other)
	}
	if s.Dir == 0 {
		return v, true
	}
	dir, ok := s.dir(e)
	if !ok || v.kind != text || strings.HasPrefix(v.text, "/") {
		return v, false
	}
	v.text = dir + "/" + strings.TrimPrefix(v.text, "./")
	return v, true
}

func (s *valueSource) dir(e *event) (string, bool) {
	if s.Dir == fromConstant {
		return s.Base, true
	}
	a, ok := e.arg(s.Base)
	if !ok || a.kind != text {
		return "", false
	}
	if s.Dir == fromArgument {
		return strings.TrimSuffix(a.text, "/"), true
	}
	i := strings.LastIndexByte(a.text, '/')
	return a.text[:max(i, 0)], i > 0
}

// sumOf returns the sum of two integers.
func sumOf(a, b scalar) (scalar, bool) {
	x, err1 := strconv.ParseInt(a.text, 10, 53)
	y, err2 := strconv.ParseInt(b.text, 10, 53)
	return scalar{strconv.FormatInt(x+y, 10), number}, err1 == nil && err2 == nil && a.kind == number && b.kind == number
}
