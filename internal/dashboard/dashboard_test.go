package dashboard_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/record"
)

const token = "a-token-of-26-letters-or-so"

// viewed returns a handler with the view of a busy hour, and the view.
func viewed(token string) (*dashboard.Page, record.View) {
	tally, now := record.NewTally(), time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	for i := range 300 {
		at := now.Add(time.Duration(i-300) * 10 * time.Second)
		for _, e := range []record.Event{
			{Kind: record.Call, Seq: int64(i + 1), Tool: []string{"list", "get"}[i%2], Disposition: record.Fetched, LatencyMS: 40},
			{Kind: record.Decision, After: int64(i + 1), Candidates: 1, Top: []record.Candidate{{Tool: "github/get", P: .5, Reason: "gate"}}},
		} {
			e.At, e.Session, e.Upstream = at, "1f00c2", "github"
			tally.Add(&e)
		}
	}
	v := tally.View(now)
	return dashboard.Handler(func() record.View { return v }, token), v
}

func request(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPaths(t *testing.T) {
	h, _ := viewed("")
	for _, c := range []struct {
		method, path string
		want         int
		kind         string
	}{
		{"GET", "/dashboard", 200, "text/html; charset=utf-8"},
		{"HEAD", "/dashboard", 200, "text/html; charset=utf-8"},
		{"GET", "/dashboard/view.json", 200, "application/json"},
		{"HEAD", "/dashboard/view.json", 200, "application/json"},
		{"POST", "/dashboard", 405, "text/plain; charset=utf-8"},
		{"DELETE", "/dashboard/view.json", 405, "text/plain; charset=utf-8"},
		{"OPTIONS", "/dashboard/view.json", 405, "text/plain; charset=utf-8"},
		{"GET", "/", 404, "text/plain; charset=utf-8"},
		{"GET", "/dashboard/", 404, "text/plain; charset=utf-8"},
		{"GET", "/dashboard/page/script.js", 404, "text/plain; charset=utf-8"},
		{"GET", "/dashboard/../dashboard.go", 307, "text/html; charset=utf-8"}, // redirects to the cleaned path, which does not exist
		{"POST", "/elsewhere", 404, "text/plain; charset=utf-8"},
	} {
		got := request(h, c.method, c.path)
		if got.Code != c.want || got.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, got.Code, got.Header().Get("Content-Type"), c.want, c.kind)
		}
		if got.Code == 405 && got.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: got Allow %q", c.method, c.path, got.Header().Get("Allow"))
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		} {
			if have := got.Header().Get(name); have != want {
				t.Errorf("%s %s: %s: got %q, want %q", c.method, c.path, name, have, want)
			}
		}
	}
}

func TestViewIsTheView(t *testing.T) {
	h, want := viewed("")
	var got record.View
	if err := json.Unmarshal(request(h, "GET", "/dashboard/view.json").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	derived := cmp.FilterPath(func(p cmp.Path) bool { // it is not part of the JSON
		return slices.Contains([]string{".Counts", ".Min", ".Problems"}, p.Last().String())
	}, cmp.Ignore())
	if diff := cmp.Diff(want, got, derived); diff != "" {
		t.Errorf("the served view differs (-want +got):\n%s", diff)
	}
	if len(got.Timeline) == 0 || len(got.Decisions) == 0 {
		t.Error("the view of a busy hour is empty")
	}
}

// Savings and warnings have the words of package record.
func TestSavedAndWrong(t *testing.T) {
	v := record.View{Period: "today", Problems: []string{"a.jsonl:3: not JSON"}}
	v.Stats.Totals.Calls, v.Stats.Totals.HiddenMS = 1, 2000
	v.Stats.Running = []record.Status{{Upstreams: []record.UpstreamStatus{{Name: "pg", State: "down", Error: "no such file"}}}}
	h := dashboard.Handler(func() record.View { return v }, "")
	var got struct {
		Saved    string
		Servers  []record.UpstreamStatus
		Warnings []record.Warning `json:"wrong"`
	}
	if err := json.Unmarshal(request(h, "GET", "/dashboard/view.json").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Saved != "Saved 2.00 s of 2.00 s waiting today." || len(got.Servers) != 1 || len(got.Warnings) != 2 || got.Warnings[0].Fix != "mcpschedd check --connect" || got.Warnings[1].Message != "a.jsonl:3: not JSON" {
		t.Errorf("got %q, %+v, %+v", got.Saved, got.Servers, got.Warnings)
	}
}

// The policy allows the page its own script and requests to its own origin, and nothing else.
func TestPolicy(t *testing.T) {
	h, _ := viewed("")
	got := request(h, "GET", "/dashboard").Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "connect-src 'self'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(got, want) {
			t.Errorf("got policy %q, want %s in it", got, want)
		}
	}
	for _, loose := range []string{"unsafe", "*", "http:", "https:", "blob:", "script-src 'self'", "script-src data:"} {
		if strings.Contains(got, loose) {
			t.Errorf("got policy %q with %s in it", got, loose)
		}
	}
	if !regexp.MustCompile(`script-src 'sha256-[^' ]+'(;|$)`).MatchString(got) {
		t.Errorf("got policy %q, want one script by its hash", got)
	}
}

// The page makes no request but that for the view.
func TestNothingFromElsewhere(t *testing.T) {
	h, _ := viewed("")
	page := request(h, "GET", "/dashboard").Body.String()
	for _, found := range regexp.MustCompile(`(?:https?:)?//[a-z0-9.]+\.[a-z]{2,}[^\s"']*`).FindAllString(page, -1) {
		if !strings.HasPrefix(found, "http://www.w3.org/2000/svg") && !strings.HasPrefix(found, "//www.w3.org/2000/svg") {
			t.Errorf("the page names %q", found)
		}
	}
	for _, name := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "setAttribute(\"style\"", "{{"} {
		if strings.Contains(page, name) {
			t.Errorf("the page contains %q", name)
		}
	}
}
