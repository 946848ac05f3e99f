package limit

import (
	"net/http"
	"strings"
	"time"
)

// RetryAfter reads an HTTP Retry-After header, in seconds or as a date: how long
// from now, at most an hour. False: there is none, or it says something else.
func RetryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.Trim(header, " \t")
	if wait, ok := seconds(header); ok {
		return wait, true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), longestCoolDown), true
}

// seconds reads a number of seconds that has digits only, however many.
func seconds(digits string) (time.Duration, bool) {
	if digits == "" {
		return 0, false
	}
	var wait time.Duration
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		wait = min(10*wait+time.Duration(digits[i]-'0')*time.Second, longestCoolDown)
	}
	return wait, true
}
