package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// byteUnits lists the units of sizes. B comes last, as it ends the other names.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// parseSize parses a size in bytes that is not negative, written with its unit: "64MiB", "1.5GB",
// "512B", or "0". A number without a unit is in bytes.
func parseSize(text string) (size int64, ok bool) {
	number, unit := strings.TrimSpace(text), int64(1)
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
		return 0, false
	}
	return int64(total), true
}

// longest is ten years. A longer time span counts as this one, so that sums do not overflow.
const longest = 10 * 365 * 24 * time.Hour

// timeSpan returns n units of time.
func timeSpan(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(longest)))
}
