package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span written as in Go: "1.5s", "10m", "0".
type Duration time.Duration

// UnmarshalText parses a span that is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return errors.New(`want a time span such as "1.5s", "10m" or "0"`)
	}
	*d = Duration(v)
	return nil
}

// String formats the span as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// Bytes is a size in bytes, written with its unit: "64MiB", "1.5GB", "512B", or "0".
type Bytes int64

// byteUnits lists the powers of two before the powers of ten, each from the largest unit down, so
// that String picks the unit in which a size is usually written.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// UnmarshalText parses a size that is not negative. A number without a unit is in bytes.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), int64(1)
	for _, u := range byteUnits {
		if n := len(number) - len(u.name); n > 0 && strings.EqualFold(number[n:], u.name) {
			number, unit = strings.TrimSpace(number[:n]), u.size
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	total := v * float64(unit)
	// The negated condition rejects NaN too. A float64 above 2^53 is not exact to the byte.
	if err != nil || !(total >= 0 && total <= 1<<53) || total != math.Trunc(total) {
		return errors.New(`want a size such as "64MiB", "512KB" or "0"`)
	}
	*b = Bytes(total)
	return nil
}

// String formats the size in the first of byteUnits that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return "0"
}
