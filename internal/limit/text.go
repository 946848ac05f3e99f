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
// answered 429. The refusal must open the text, or what follows a colon or the name of a JSON member:
// elsewhere in a sentence, a path or a title it is about something else. A false match only pauses
// prefetches.
func TextSaysLimited(text string) bool {
	return len(text) <= maxText && limitedPattern().MatchString(strings.TrimSpace(text))
}

// limitedPattern is compiled at its first use. Most processes never use it, and it takes a megabyte.
var limitedPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[:\]❌] |: [45][0-9]{2} |"(?:message|err|error|errormessages|code|ecode|status|type|reason|detail|title)": ?\[?"?)(?:` + strings.Join([]string{
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
})

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
