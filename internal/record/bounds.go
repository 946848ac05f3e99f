package record

import (
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on what a tally keeps. Events come from files, and names come from clients and
// servers, which may send any number of names of any length.
const (
	maxTools     = 4096
	maxUpstreams = 256
	maxProcesses = 1024 // running at the same time
	maxReasons   = 64   // keys of each map of counts
	maxName      = 256  // bytes of a name, or of a tool's name together with its upstream's
	maxCount     = 1 << 40
	maxAmount    = 1e12 // about 30 years in milliseconds
)

// other is the name under which everything beyond a bound is counted.
const other = "(other)"

// boundedKey returns the key of m for name: name itself, or other if m has no room for it.
func boundedKey[T any](m map[string]T, limit int, name string) string {
	if _, known := m[name]; known {
		return name
	}
	if len(m) >= limit {
		return other
	}
	return strings.Clone(name) // name may be a substring of a whole message
}

// addCount adds n to the count of a name, and makes the map if it is nil.
func addCount(m *map[string]int64, name string, n int64) {
	if n <= 0 {
		return
	}
	if *m == nil {
		*m = make(map[string]int64)
	}
	(*m)[boundedKey(*m, maxReasons, truncate(name, maxName))] += min(n, maxCount)
}

// sanitize clamps a value so that it can be added up and displayed: numbers are finite and at
// least 0, years have four digits, strings are valid UTF-8 of bounded length.
func sanitize(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); text != "" {
			v.SetString(truncate(text, maxName))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(min(max(v.Int(), 0), maxCount))
	case reflect.Float64:
		v.SetFloat(min(nonNegative(v.Float()), maxAmount))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			at := v.Addr().Interface().(*time.Time)
			*at = fromMicros(micros(*at))
			return
		}
		fields := v.NumField() // v.Fields takes three times as long, and allocates
		for i := range fields {
			sanitize(v.Field(i))
		}
	}
}

// nonNegative returns x, or 0 if x is negative or not a number.
func nonNegative(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// truncate returns at most n bytes of a text, as valid UTF-8.
func truncate(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// second and lastMoment, the end of the year 9999, are in microseconds.
const (
	second     = 1_000_000
	lastMoment = 253402300799 * second
)

// micros returns a time in microseconds since 1970, clamped to the year 9999; 0 if it is not known.
func micros(at time.Time) int64 {
	switch s := at.Unix(); {
	case s < 0:
		return 0
	case s >= lastMoment/second:
		return lastMoment
	}
	return at.UnixMicro()
}

// fromMicros returns the time for microseconds since 1970; 0 stands for the zero time.
func fromMicros(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}
