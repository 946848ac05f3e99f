package limit

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxText is the longest text, in bytes, that may be a server's refusal. Longer texts quote
// something.
const maxText = 2 << 10

// TextSaysLimited reports whether the text of a failed tool call says that the server's own back end
// answered 429, and the requested wait; 0 if it gives none. The refusal must open the text, or what
// follows a colon or the name of a JSON member: elsewhere in a sentence, a path or a title it is about
// something else. A false match only pauses prefetches.
func TextSaysLimited(text string) (time.Duration, bool) {
	if len(text) > maxText || !limitedPattern().MatchString(strings.TrimSpace(text)) {
		return 0, false
	}
	return parseWait(text), true
}

// lazyRegexp compiles an expression at its first use. Most processes never use these, and they
// take a megabyte.
func lazyRegexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var limitedPattern = lazyRegexp(`(?i)(?:^|[:\]❌] |: [45][0-9]{2} |"(?:message|err|error|errormessages|code|ecode|status|type|reason|detail|title)": ?\[?"?)(?:` + strings.Join([]string{
	`(?:[a-z]+ ){0,4}rate[ _-]limits? (?:was |has been |already )?(?:exceeded|reached|hit)`,
	`rate[ _-]?limit(?:ed|_exceeded|_error)`,
	`(?:you |request was )[a-z ]{3,30} (?:rate[ -]limit(?:ed)?|detection mechanism)`,
	`api rate limit of [0-9]+ still exceeded`,
	`(?:error code: )?429(?: client error| - rate limit| - slow down)?`,
	`(?:429 )?too[ _]many[ _]requests`,
	`(?:[a-z]+ ){0,5}(?:http(?:/[0-9.]+)?|status)(?: error| status| code)*:? \(?429(?: too many requests)?`,
	`this endpoint has been requested too many times`,
	`retry later`,
	`quota exceeded for quota metric '[^']*'`,
}, "|") + `)` +
	`(?:$|[,:;!?)}"'\n]|\.(?:$|[\s"])|\.? [-({\[]| (?:for|on|by|until|please|retry|retrying|try|and|when|client) )`)

// waitPattern matches the wait in a refusal: a Go duration, or a number and an optional unit. A
// number followed by another number is a point in time.
var waitPattern = lazyRegexp(`(?i)(?:retry[-_ ]?after|retry your request after|(?:retry|retrying|rate reset|resets?) in|try again (?:in|after)|wait(?: for)?)["']?[:=]? *["']?` +
	`(?:((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms?|s))+)\b|([0-9]{1,9}(?:\.[0-9]{1,9})?) *([a-z]*)([:/-]?[0-9])?)`)

// parseWait returns the wait that the text asks for, at most an hour; 0 if it gives none.
func parseWait(text string) time.Duration {
	m := waitPattern().FindStringSubmatch(text)
	if m == nil || m[4] != "" {
		return 0
	}
	duration := strings.ToLower(m[1])
	if duration == "" {
		duration = m[2] + unit(strings.ToLower(m[3]))
	}
	wait, err := time.ParseDuration(duration)
	if err != nil {
		return 0
	}
	return min(wait, maxCoolDown)
}

// unit returns the unit that a word names. Any other word continues the sentence: a bare number
// is in seconds, as in the header.
func unit(word string) string {
	switch {
	case strings.HasPrefix(word, "ms"), strings.HasPrefix(word, "milli"):
		return "ms"
	case word == "m", strings.HasPrefix(word, "min"):
		return "m"
	case strings.HasPrefix(word, "h"),
		word == "d", strings.HasPrefix(word, "day"), strings.HasPrefix(word, "week"), strings.HasPrefix(word, "month"): // over the bound of an hour as well
		return "h"
	}
	return "s"
}

// RetryAfter parses an HTTP Retry-After header, in seconds or as a date. It returns the wait
// from now, at most an hour; 0 if the header is empty or not valid.
func RetryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxCoolDown/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxCoolDown)
}
