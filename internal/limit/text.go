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

// maxText is the longest text, in bytes, that may be a server's refusal. Longer texts quote
// something.
const maxText = 2 << 10

// Limited reports whether the text of a failed tool call says that the server's own back end
// answered 429, and the requested wait; 0 if it gives none. The refusal must open the text, after
// nothing but error prefixes: inside a sentence, a path or a title it is about something else.
func Limited(text string) (time.Duration, bool) {
	if len(text) > maxText {
		return 0, false
	}
	rest := strings.TrimSpace(text)
	for range 6 { // "MCP error -32603: Error: failed to list issues: GET https://…: 403 Forbidden: …"
		if refusalText().MatchString(rest) || isRefusalJSON(rest) {
			return parseWait(text), true
		}
		prefix := errorPrefix().FindString(rest)
		if prefix == "" {
			break
		}
		rest = rest[len(prefix):]
		if overHTTP().MatchString(prefix) && status429().MatchString(rest) {
			return parseWait(text), true
		}
	}
	return 0, false
}

// lazyRegexp compiles an expression at its first use. Most processes never use these, and they
// take a megabyte.
func lazyRegexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// errorPrefix matches one opening that only says that something failed.
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

// Verbs for requests to remote services. Not find, open or parse, which are about local things
// and their names.
const (
	verbs = `list|get|fetch|search|create|update|add|call|query|retrieve|execute|run|make|send|post|read|push|merge|complete|access|request|perform|process`
	doing = `listing|getting|fetching|searching|creating|updating|calling|querying|retrieving|executing|running|making|sending|reading|in|from`
)

// After an error prefix that mentions HTTP or an API, a bare 429 is a status.
var (
	overHTTP  = lazyRegexp(`(?i)\b(?:https?|api|request|mcp)\b|httperror`)
	status429 = lazyRegexp(`(?i)^\(?429` + clauseEnd429)
)

// refusalText matches a text that opens with the refusal itself. What follows must end the
// clause, or continue as such texts do.
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

	// Words for the kind of limit. Any other words before it may be a title.
	limitWords = `(?:(?:the|your|our|api|rest|graphql|search|requests?|mcp|server|tool|token|user|account|organization|workspace|global|primary|secondary|hourly|daily|concurrent|github|gitlab|jira|notion|slack|linear|openai) ){0,4}`
)

// isRefusalJSON reports whether the text is a JSON object that says 429.
func isRefusalJSON(text string) bool {
	if !strings.HasPrefix(text, "{") {
		return false
	}
	var body any
	return json.Unmarshal([]byte(text), &body) == nil && isRefusal(body, 4)
}

// isRefusal reports whether a decoded error says 429 by its status, code or message. It looks
// only into members that hold errors.
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

// waitPattern matches the wait in a refusal: a Go duration, or a number and an optional unit. A
// number followed by another number is a point in time.
var waitPattern = lazyRegexp(`(?i)(?:retry[-_ ]?after|retry your request after|(?:retry|retrying|rate reset|resets?) in|try again (?:in|after)|wait(?: for)?)["']?[:=]? *["']?` +
	`(?:((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms?|s))+)\b|([0-9]{1,9}(?:\.[0-9]{1,9})?) *([a-z]*)([:/-]?[0-9])?)`)

// maxPlausibleWait is the wait above which a number must be a point in time.
const maxPlausibleWait = 30 * 24 * time.Hour

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
	if err != nil || wait > maxPlausibleWait {
		return 0
	}
	return min(wait, maxCoolDown)
}

// unit returns the unit that a word names. Any other word continues the sentence: a bare number
// is in seconds, as in the header.
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

// RetryAfter parses an HTTP Retry-After header, in seconds or as a date. It returns the wait
// from now, at most an hour; false if the header is empty or not valid.
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
