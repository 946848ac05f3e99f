package record

import (
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds. Events come from files, and names from clients and servers, which may invent
// any number of them, of any length.
const (
	mostTools     = 4096
	mostUpstreams = 256
	mostProcesses = 1024 // that have not ended
	mostReasons   = 64   // reasons and causes of each kind
	longest       = 256  // bytes of a name, and of a tool with its upstream
	mostCounted   = 1 << 40
	mostAmount    = 1e12 // 30 years of milliseconds
)

// other is what counts together for what is beyond the bounds.
const other = "(other)"

// within is a name under which something is counted: itself, or other beyond the bound.
func within[T any](m map[string]T, most int, name string) string {
	if _, known := m[name]; known {
		return name
	}
	if len(m) >= most {
		return other
	}
	return strings.Clone(name) // it may be part of a message
}

// bump adds to a count by name.
func bump(m *map[string]int64, name string, n int64) {
	if n <= 0 {
		return
	}
	if *m == nil {
		*m = make(map[string]int64)
	}
	(*m)[within(*m, mostReasons, cut(name, longest))] += min(n, mostCounted)
}

// tidy puts right what could not be added up or shown: numbers are at least 0 and not endless,
// times have a year of four digits, names are UTF-8 of bounded length.
func tidy(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); text != "" {
			v.SetString(cut(text, longest))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(min(max(v.Int(), 0), mostCounted))
	case reflect.Float64:
		v.SetFloat(min(positive(v.Float()), mostAmount))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			at := v.Addr().Interface().(*time.Time)
			*at = timeOf(micros(*at))
			return
		}
		fields := v.NumField() // v.Fields takes three times as long, and memory
		for i := range fields {
			tidy(v.Field(i))
		}
	}
}

// positive is a number, or 0 if it is none above that.
func positive(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// cut is at most n bytes of a text, in whole characters.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// second is one in microseconds, and lastMoment the end of the year 9999.
const (
	second     = 1_000_000
	lastMoment = 253402300799 * second
)

// micros is a time in microseconds since 1970, at most the year 9999; 0: not known.
func micros(at time.Time) int64 {
	switch s := at.Unix(); {
	case s < 0:
		return 0
	case s >= lastMoment/second:
		return lastMoment
	}
	return at.UnixMicro()
}

// timeOf is a time of microseconds since 1970, zero if it is not known.
func timeOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}
