package limit_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/limit"
)

func TestLimited(t *testing.T) {
	for _, text := range []string{
		// GitHub
		"API rate limit exceeded for user ID 583231.",
		"failed to search issues: GET https://api.github.com/search/issues?q=is%3Aopen+429&per_page=30: 403 API rate limit exceeded for user ID 583231. [rate reset in 12m30s]",
		"failed to list issues: GET https://api.github.com/repos/o/r/issues: 403 API rate limit of 5000 still exceeded until 2026-03-01 10:00:00 +0000 UTC, not making remote request. [rate reset in 47m]",
		"failed to get file contents: GET https://api.github.com/repos/o/r/contents/a.go: 403 You have exceeded a secondary rate limit. Please wait a few minutes before you try again. []",
		"You have exceeded a secondary rate limit. Retry your request after 2 minutes",
		"You have triggered an abuse detection mechanism. Please retry your request again later.",
		`GitHub API error: 403 {"message":"You have exceeded a secondary rate limit. Please wait."}`,
		// GitLab
		"429 Too Many Requests",
		"Retry later\n",
		`{"message":{"error":"x"},"error":"This endpoint has been requested too many times. Try again later."}`,
		"GET https://gitlab.example.com/api/v4/projects: 429 {message: Retry later}",
		// Notion
		`{"object":"error","status":429,"code":"rate_limited","message":"You have been rate limited. Please try again in a few minutes."}`,
		"rate_limited: slow down",
		// Atlassian
		"HTTPError: 429 Client Error: Too Many Requests for url: https://x.atlassian.net/rest/api/3/search",
		"Error calling tool 'jira_search': 429 Client Error:  for url: https://x.atlassian.net/rest/api/3/search",
		"Jira API error: 429",
		`{"errorMessages":["Rate limit exceeded."],"errors":{}}`,
		`{"code":429,"message":"HTTP 429 Too Many Requests"}`,
		// ClickUp, Fireflies, Linear, Brave
		`{"err":"Rate limit reached","ECODE":"APP_002"}`,
		`{"errors":[{"friendly":true,"code":"too_many_requests","message":"Too many requests. Please retry after 5:00:00 AM (UTC)","extensions":{"code":"too_many_requests","status":429,"metadata":{"retryAfter":1772350000000}}}]}`,
		`{"errors":[{"message":"slow","extensions":{"code":"RATELIMITED","retryAfter":1772350000000}}]}`,
		"Error: Rate limit exceeded",
		// Models and other services
		"Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 20s.",
		"RateLimitError: 429 Rate limit reached for requests. Please try again in 1.5s",
		`Error code: 429 - rate limit: {"error": 1}`,
		"You are being rate limited.",
		`{"message":"You are being rate limited.","retry_after":64.57,"global":false}`,
		"Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per user' of service 'sheets.googleapis.com'",
		"MCP error 429: MCP token rate limit exceeded for this tool",
		// Clients and frameworks
		"Request failed with status code 429",
		"MCP error -32603: Request failed with status code 429",
		"HTTP 429: Too Many Requests",
		"HTTP/1.1 429 Too Many Requests",
		"Unexpected status code: 429",
		"API request failed: 429 - slow down, retry after 30 seconds",
		"Server responded with status 429 (Too Many Requests)",
		`{"status":429}`,
		`{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}`,
		"Too many requests, please try again later.",
		"Too many requests. Retry after 5 without a token",
		"Too many requests, retry after 120",
		"Rate limited. Retrying in 500ms",
		"❌ Rate limit exceeded. Please wait 15 min.",
	} {
		if !limit.TextSaysLimited(text) {
			t.Errorf("%s: not recognised as a 429", text)
		}
	}
}

func TestNotLimited(t *testing.T) {
	for _, text := range []string{
		"",
		"line 429: unexpected token",
		"main.go:429: undefined: rateLimit",
		"Error: 429 files changed",
		"process exited with code 429",
		"Error: expected 200 but got 429 in handler_test.go",
		"HTTP 429 handling is missing in client.go",
		"HTTP 4290",
		"HTTP 503 Service Unavailable. Retry after 30 seconds",
		"error 429: unreachable code",
		"Request failed with status code 404: 429 is not a project",
		"ENOENT: no such file or directory, open '/notes/429 Too Many Requests.md'",
		"open /src/rate_limited.go: no such file or directory",
		"NameError: name 'rate_limited' is not defined",
		`failed to create issue "API rate limit exceeded": 422 Validation Failed`,
		"failed to get issue: GET https://api.github.com/repos/o/r/issues/429: 404 Not Found []",
		"failed to get file: GET https://api.github.com/repos/o/r/contents/429%20Too%20Many%20Requests: 404 Not Found []",
		"#429 Handle rate limit exceeded (open)",
		"Validation failed: title 'Too Many Requests' has already been taken",
		"Rate limit exceeded handling is missing in client.go",
		"Too many requests in the fixture",
		"API rate limit exceeded is the error that you get without a token",
		"# Rate limiting\n\nWhen you have exceeded a secondary rate limit the API answers 429.",
		"The request was refused because the rate limiter is not configured",
		"You have exceeded the maximum file size",
		"Quota exceeded: disk full",
		"too many requests_total samples",
		"Retry later with another branch name",
		"connection refused; retry after 5 seconds",
		`{"status":404,"message":"issue 429 not found"}`,
		`{"count":429}`,
		`{"title":"rate limits","body":"429 Too Many Requests"}`,
		"grep: 3 matches for \"HTTP 429\"",
		"src/http.ts:88: if (status === 429) throw new Error('Too many requests')",
		"Tool rate_limit not found",
		"Error: rate limit exceeded.md not found",
		"Error: Too Many Requests-handling is missing",
		"429 Too Many Requests\n" + strings.Repeat("x", 2<<10),
	} {
		if limit.TextSaysLimited(text) {
			t.Errorf("%s: recognised as a 429", text)
		}
	}
}
