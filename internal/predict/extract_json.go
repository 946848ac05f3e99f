package predict

import "strings"

// scanJSON takes the scalars of a JSON text, each under its path: $.a.b, [*] for
// the elements of an array, .* for a member whose name looks like a key, and
// .{key} for such names themselves. It is false if the text does not look like
// JSON; where it breaks off, as a shortened result does, what came before counts.
func (v *Values) scanJSON(b []byte) bool {
	i := blank(b, 0)
	if i >= len(b) || b[i] != '{' && b[i] != '[' {
		return false
	}
	if !v.jsonBegins(b, i) {
		return false
	}
	s := jsonScan{v: v, in: b, at: i}
	s.value("$", 0, 0)
	return s.taken > 0 || s.at >= len(b)
}

// jsonBegins tells {"a": …} and [{…}] from "[FILE] name" and "[12:30] text".
func (v *Values) jsonBegins(b []byte, i int) bool {
	next := blank(b, i+1)
	if next >= len(b) {
		return false
	}
	if b[i] == '{' {
		return b[next] == '"' || b[next] == '}'
	}
	return strings.IndexByte("\"{[]-0123456789", b[next]) >= 0
}

type jsonScan struct {
	v      *Values
	in     []byte
	at     int
	groups int32 // array elements so far
	taken  int   // scalars so far
}

// value reads one value; false ends the reading.
func (s *jsonScan) value(path string, group int32, depth int) bool {
	s.at = blank(s.in, s.at)
	if s.at >= len(s.in) || depth > maxExtractDepth || s.v.count >= maxValues {
		return false
	}
	switch s.in[s.at] {
	case '{':
		return s.object(path, group, depth+1)
	case '[':
		return s.array(path, depth+1)
	}
	return s.scalar(path, group)
}

func (s *jsonScan) object(path string, group int32, depth int) bool {
	s.at++
	keys := -1
	for first := true; ; first = false {
		s.at = blank(s.in, s.at)
		if s.take('}') {
			return true
		}
		if !first && !s.take(',') {
			return false
		}
		s.at = blank(s.in, s.at)
		name, ok := s.text()
		if s.at = blank(s.in, s.at); !ok || !s.take(':') {
			return false
		}
		step := name
		if keyLike(name) {
			if keys < 0 {
				keys = s.v.list(path + ".{key}")
			}
			s.groups++
			group = s.groups
			s.v.add(keys, name, text, group)
			step = "*"
		}
		if !s.value(path+"."+step, group, depth) {
			return false
		}
	}
}

func (s *jsonScan) array(path string, depth int) bool {
	s.at++
	path += "[*]"
	for first := true; ; first = false {
		s.at = blank(s.in, s.at)
		if s.take(']') {
			return true
		}
		if !first && !s.take(',') {
			return false
		}
		s.groups++
		if !s.value(path, s.groups, depth) {
			return false
		}
	}
}

func (s *jsonScan) scalar(path string, group int32) bool {
	s.taken++
	if s.in[s.at] == '"' {
		t, ok := s.text()
		if ok {
			s.v.add(s.v.list(path), t, text, group)
		}
		return ok
	}
	from := s.at
	for s.at < len(s.in) && strings.IndexByte(",:]}[{\" \t\r\n", s.in[s.at]) < 0 {
		s.at++
	}
	t := string(s.in[from:min(s.at, from+maxValueBytes)])
	if isNumber(t) {
		s.v.add(s.v.list(path), t, number, group)
	}
	return s.at > from
}

// text reads a string.
func (s *jsonScan) text() (string, bool) {
	if s.at >= len(s.in) || s.in[s.at] != '"' {
		return "", false
	}
	from, plain := s.at, true
	for s.at++; s.at < len(s.in); s.at++ {
		switch s.in[s.at] {
		case '\\':
			s.at++
			plain = false
		case '"':
			s.at++
			if raw := s.in[from:s.at]; plain || len(raw) > 6*maxValueBytes {
				return string(raw[1:min(len(raw)-1, maxValueBytes+2)]), true
			}
			return unquote(string(s.in[from:s.at]))
		}
	}
	return "", false
}

func (s *jsonScan) take(c byte) bool {
	if s.at >= len(s.in) || s.in[s.at] != c {
		return false
	}
	s.at++
	return true
}

// keyLike reports whether the name of a member looks like data and not like part
// of a structure: it has a digit and nothing else that a key would not have.
func keyLike(name string) bool {
	digits := 0
	for i := range len(name) {
		if c := name[i]; c >= '0' && c <= '9' {
			digits++
		}
	}
	return digits > 1 || digits == len(name) || strings.ContainsAny(name, "/ @") || len(name) > 40
}

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
