package limit

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// longestText (bytes) is how long a text may be to be taken for a server's
// complaint. What is longer quotes something.
const maxText = 2 << 10

// Limited reports whether the text of a failed tool call says that the server's
// own back end refused it with a 429, and how long that wants to be left alone; 0
// if it does not say. The complaint must open the text, behind nothing but words
// that announce an error: one inside a sentence, a path or a title is about
// something else.
func Limited(text string) (time.Duration, bool) {
	if len(text) > maxText {
		return 0, false
	}
	rest := strings.TrimSpace(text)
	for range 6 { // "MCP error -32603: Error: failed to list issues: GET https://…: 403 Forbidden: …"
		if refusalText().MatchString(rest) || isRefusalJSON(rest) {
			return parseWait(text), true
		}
		opening := errorPrefix().FindString(rest)
		if opening == "" {
			break
		}
		rest = rest[len(opening):]
		if overHTTP().MatchString(opening) && status429().MatchString(rest) {
			return parseWait(text), true
		}
	}
	return 0, false
}

// compiled compiles an expression when it is first asked for: most processes never
// are, and these cost a megabyte.
func lazyRegexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// announcement is one opening that only says that something went wrong.
var errorPrefix = lazyRegexp(`(?i)^(?:` + strings.Join([]string{
	`(?:\[(?:error|warning)\]|❌|⚠️|✗)`,
	`(?:[a-z_]+\.)*[a-z_]*(?:error|exception)(?: -?[0-9]{1,6})?:`, // AxiosError: github.RateLimitError:
	`mcp error -?[0-9]{1,6}:`,
	`(?:failed|unable) to (?:` + verbs + `)(?: [a-z'-]{1,24}){0,6}:`,                                     // failed to list issues:
	`(?:could not|cannot|can't) (?:` + verbs + `)(?: [a-z'-]{1,24}){0,6}:`,                               // cannot get the file:
	`error (?:` + doing + `)(?: [a-z'-]{1,24}){0,3}(?: ['"` + "`" + `]?[\w./-]{1,64}['"` + "`" + `]?)?:`, // Error executing tool 'search_issues':
	`(?:[a-z][\w-]{0,24} ){0,4}(?:error|failed|failure)(?: \([0-9]{3}\))?(?::| -)`,                       // GitHub API error (403):
	`(?:get|head|post|put|patch|delete) "?https?://\S+:`,                                                 // GET https://api.github.com/search/issues?q=x:
	`(?:http )?4[0-9]{2}(?: forbidden| client error)?(?: ?[:-])? `,                                       // 403 Forbidden:
}, "|") + `)\s*`)

// What one fails to do with a remote service; not to find, open or parse, which
// is said of local things and their names.
const (
	verbs = `list|get|fetch|search|create|update|add|call|query|retrieve|execute|run|make|send|post|read|push|merge|complete|access|request|perform|process`
	doing = `listing|getting|fetching|searching|creating|updating|calling|querying|retrieving|executing|running|making|sending|reading|in|from`
)

// After an announcement that speaks of HTTP or an API a mere 429 is a status.
var (
	overHTTP  = lazyRegexp(`(?i)\b(?:https?|api|request|mcp)\b|httperror`)
	status429 = lazyRegexp(`(?i)^\(?429` + clauseEnd429)
)

// complaint is a text that opens with the refusal itself. What follows must end
// the clause, or go on as such texts do.
var refusalText = lazyRegexp(`(?i)^(?:` + strings.Join([]string{
	limitWords + `rate[ -]limit(?:s|ing)? (?:was |has been |already )?(?:exceeded|reached|hit)` + clauseEnd,
	`api rate limit of [0-9]+ still exceeded until `,
	`(?:you have|you've|your [a-z ]{1,40} has) (?:exceeded|reached|hit|triggered) (?:a|an|the|your|our)(?: api| request| abuse)?(?: secondary)? (?:rate limit|detection mechanism)` + clauseEnd,
	`(?:you are|you're|request was|you have been|this request was) (?:being )?rate[ -]limited` + clauseEnd,
	`rate[ -]limited` + clauseEnd,
	`(?:429 ?[:,-]? ?)?\(?too many requests\)?` + clauseEnd,
	`429 client error`,
	`(?:http(?:/[0-9.]+)?|status)(?: error| status| response)?(?: code)?:? ?\(?429` + clauseEnd429,
	`(?:error(?: code)?|mcp error):? \(?429\)?(?:[:,]? ?-? ?(?:[\w-]+ ){0,4}(?:too many requests|rate limit)|$)`,
	`(?:the )?(?:[a-z][\w.-]{0,24} ){0,4}(?:failed|responded|returned|received|replied|unexpected)(?: an?| with| the| error| http| unexpected| response){0,4}(?: status(?: code)?| code| http| error):? ?\(?429` + clauseEnd429,
	`(?:the )?(?:[a-z][\w.-]{0,24} )?api (?:responded with|returned) \(?429` + clauseEnd429,
	`(?:rate_limited|ratelimited|too_many_requests|rate_limit_exceeded|rate_limit_error|app_002)(?:$|[:,;)]| [-({])`,
	`rate ?limit ?(?:error|exception): (?:429|rate|too many|please|retry|try|you)`,
	`retry later[.!]?$`,
	`(?:this|the) endpoint has been requested too many times`,
	`quota exceeded for quota metric `,
}, "|") + `)`)

const (
	clauseEnd    = `(?:$|[,:;!)…\n]|\.(?:$|[.\s])|\.? [-–—({\[]| (?:for|on|by|until|please|retry|retrying|try|and|when|while|to) )`
	clauseEnd429 = `(?:$|[,:;!)}"'\n]|\.(?:$|\s)| [-–—]| ?[({\[]| (?:too many requests|client error|for url|from) ?)`

	// What the limit is one of. Any other words before it may be a title's.
	limitWords = `(?:(?:the|your|our|api|rest|graphql|search|requests?|mcp|server|tool|token|user|account|organization|workspace|global|primary|secondary|hourly|daily|concurrent|github|gitlab|jira|notion|slack|linear|openai) ){0,4}`
)

// complains reports whether the text is a JSON object that is such a refusal.
func isRefusalJSON(text string) bool {
	if !strings.HasPrefix(text, "{") {
		return false
	}
	var body any
	return json.Unmarshal([]byte(text), &body) == nil && isRefusal(body, 4)
}

// refuses reports whether a decoded error says so by its status, its code or its
// message. It looks only into members that hold errors.
func isRefusal(body any, depth int) bool {
	switch body := body.(type) {
	case string:
		return refusalText().MatchString(body)
	case []any:
		return depth > 0 && len(body) > 0 && isRefusal(body[0], depth-1)
	case map[string]any:
		for name, value := range body {
			switch word, _ := value.(string); strings.ToLower(name) {
			case "status", "statuscode", "status_code", "httpstatus", "http_status", "code", "ecode", "type", "reason":
				if value == 429.0 || slices.Contains(refusalCodes, strings.ToLower(word)) {
					return true
				}
			case "message", "err", "detail", "title", "error_description", "errormessage", "error", "errors", "extensions", "errormessages":
				if depth > 0 && isRefusal(value, depth-1) {
					return true
				}
			}
		}
	}
	return false
}

var refusalCodes = []string{
	"429", "429 too_many_requests", "rate_limited", "ratelimited", "too_many_requests", "toomanyrequests", "rate_limit_exceeded",
	"rate_limit_error", "ratelimitexceeded", "app_002", "rate_limit_reached",
}

// hint is where a complaint says how long to wait: a duration as Go writes it, or
// a number and perhaps its unit. What ends in another number is a point in time.
var waitPattern = lazyRegexp(`(?i)(?:retry[-_ ]?after|retry your request after|(?:retry|retrying|rate reset|resets?) in|try again (?:in|after)|wait(?: for)?)["']?[:=]? *["']?` +
	`(?:((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms?|s))+)\b|([0-9]{1,9}(?:\.[0-9]{1,9})?) *([a-z]*)([:/-]?[0-9])?)`)

// farOff is a wait so long that it is a point in time.
const maxPlausibleWait = 30 * 24 * time.Hour

// waitIn returns how long the text says to wait, at most an hour; 0 if it says
// nothing of the kind.
func parseWait(text string) time.Duration {
	m := waitPattern().FindStringSubmatch(text)
	if m == nil || m[4] != "" {
		return 0
	}
	written := strings.ToLower(m[1])
	if written == "" {
		written = m[2] + unit(strings.ToLower(m[3]))
	}
	wait, err := time.ParseDuration(written)
	if err != nil || wait > maxPlausibleWait {
		return 0
	}
	return min(wait, maxCoolDown)
}

// unit is the unit that a word names. Any other word is the next one of the
// sentence: a number alone counts seconds, as in the header.
func unit(word string) string {
	switch {
	case strings.HasPrefix(word, "milli"):
		return "ms"
	case strings.HasPrefix(word, "min"):
		return "m"
	case strings.HasPrefix(word, "hour"), word == "hr", word == "hrs":
		return "h"
	case word == "ms", word == "m", word == "h":
		return word
	}
	return "s"
}

// RetryAfter reads an HTTP Retry-After header, in seconds or as a date: how long
// from now, at most an hour. False: there is none, or it says something else.
func RetryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.Trim(header, " \t")
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxCoolDown/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxCoolDown), true
}
