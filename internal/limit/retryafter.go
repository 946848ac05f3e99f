package limit

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads an HTTP Retry-After header, in seconds or as a date: how long
// from now, at most an hour. False: there is none, or it says something else.
func RetryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.Trim(header, " \t")
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(longestCoolDown/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), longestCoolDown), true
}
