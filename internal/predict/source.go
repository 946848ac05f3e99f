package predict

import (
	"strconv"
	"strings"
)

// origin is where the value of an argument comes from.
type origin byte

const (
	fromConstant  origin = 'k' // always the same value
	fromCarried   origin = 'c' // the last value that an argument of this name had
	fromArgument  origin = 'a' // an argument of the trigger
	fromResult    origin = 'r' // the result of the trigger
	fromElsewhere origin = 'e' // the newest result of another tool
)

// Which value of a list.
const (
	first  = 0
	last   = -1
	every  = -2 // one candidate for each
	beside = -3 // the one in the same array element as the one of which there is one for each
)

// valueSource says how to find the value of one argument. It holds names and paths,
// and values only where the same ones were seen often.
type valueSource struct {
	From  origin
	Name  string // of the argument, or a path of the values of a result
	Tool  string // of elsewhere
	Pick  int    // of a result
	Dir   origin // constant, argument or result (of an argument, its directory): what stands before the value and a slash; 0: nothing
	Base  string // the directory, or the name of the argument
	Plus  string // a second argument of the trigger, to be added
	Value scalar // of a constant
}

// key tells sources apart.
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

// one returns the value of a source of which there is just one.
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

// rankOf is the rank of the value that the source makes into v; -1 if there is none.
func (s *valueSource) rankOf(l *valueList, e *event, v scalar) int {
	for i := range l.size() {
		if got, ok := s.transform(l.rank(i).value, e); ok && got.text == v.text {
			return i
		}
	}
	return -1
}

// changed applies what is to be done to a value that was found.
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

// added adds two whole numbers.
func sumOf(a, b scalar) (scalar, bool) {
	x, err1 := strconv.ParseInt(a.text, 10, 53)
	y, err2 := strconv.ParseInt(b.text, 10, 53)
	return scalar{strconv.FormatInt(x+y, 10), number}, err1 == nil && err2 == nil && a.kind == number && b.kind == number
}
