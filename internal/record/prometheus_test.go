//go:build !lean

package record_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"mcpschedd/internal/record"
)

// scraped holds the inputs of a metrics handler.
type scraped struct {
	Stats   func() record.Stats
	Version string
}

func (s scraped) handler() http.Handler {
	return record.Metrics(s.Stats, s.Version)
}

// scrape returns the response to a scraper with the given Accept header.
func scrape(t *testing.T, h http.Handler, accept string) *http.Response {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("got %d: %s", w.Code, w.Body)
	}
	return w.Result()
}

// parsed returns a scrape as Prometheus parses it.
func parsed(t *testing.T, o scraped) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(scrape(t, o.handler(), "text/plain").Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value returns the value of the sample with the labels "upstream", "x", …; others are "".
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		if is(m, labels) {
			return number(m)
		}
	}
	t.Errorf("no %s with %q", name, labels)
	return math.NaN()
}

func is(m *dto.Metric, labels []string) bool {
	has := make(map[string]string)
	for _, l := range m.Label {
		has[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

func number(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

func sum(families map[string]*dto.MetricFamily, name string, labels ...string) (all float64) {
	for _, m := range families[name].GetMetric() {
		if is(m, labels) {
			all += number(m)
		}
	}
	return all
}

// scrapedBusy returns a handler of busy's figures, with an error and a call for a tool that no
// upstream has.
func scrapedBusy() scraped {
	tally := busy()
	tally.Add(&record.Event{Kind: record.Call, Session: "a", Seq: 9, Tool: "no_such_tool", Disposition: record.Failed, Error: "refused"})
	tally.Add(&record.Event{Kind: record.Call, Session: "a", Seq: 10, Upstream: "github", Tool: "get_issue", Disposition: record.Joined, LatencyMS: 30, IsError: true})
	return scraped{Version: "1.2.3", Stats: func() record.Stats {
		s := tally.Stats(time.Time{})
		pool := &record.PoolBudget{Tokens: 500, Used: 70}
		s.SetRunning([]record.Status{{Hosts: map[string]record.Host{"api.github.com": {Level: 2, Limited: 3, HarmMS: 1500, CoolingMS: 7000}}, Pool: pool}, {Pool: pool}})
		return s
	}}
}

// A scrape contains the figures.
func TestAgainstStats(t *testing.T) {
	o := scrapedBusy()
	got, s := parsed(t, o), o.Stats()
	same := func(name string, want float64, labels ...string) {
		t.Helper()
		if got := sum(got, name, labels...); math.Abs(got-want) > 1e-9*math.Max(1, want) {
			t.Errorf("%s%q: got %v, want %v", name, labels, got, want)
		}
	}
	same("mcpschedd_calls_total", float64(s.Totals.Calls))
	same("mcpschedd_served_stored_total", float64(s.Totals.Hit))
	same("mcpschedd_failed_total", 1, "tool", "(unknown)")
	same("mcpschedd_upstream_calls_total", float64(s.Totals.UpstreamCalls))
	same("mcpschedd_errors_total", float64(s.Totals.Errors))
	same("mcpschedd_tool_hidden_seconds_total", s.Totals.HiddenMS/1000)
	same("mcpschedd_tool_hidden_prefetch_seconds_total", s.Totals.HiddenByPrefetch/1000)
	same("mcpschedd_prefetch_issued_total", float64(s.Totals.Prefetch.Issued))
	same("mcpschedd_prefetch_in_time_total", 1)
	same("mcpschedd_prefetch_wasted_total", 1, "cause", "never_asked")
	same("mcpschedd_declined_total", 5)
	same("mcpschedd_declined_total", 2, "reason", "budget")
	same("mcpschedd_late_invoked_after_decline_total", 1)
	same("mcpschedd_budget_pool_tokens", 1000)
	same("mcpschedd_budget_pool_used", 140)
	same("mcpschedd_reads_total", float64(s.Totals.Reads))
	same("mcpschedd_harm_foreground_wait_seconds_total", 0.02)
	same("mcpschedd_host_level", 2, "host", "api.github.com")
	same("mcpschedd_host_limited_total", 3, "host", "api.github.com")
	same("mcpschedd_host_harm_seconds_total", 1.5)
	same("mcpschedd_build_info", 1, "version", "1.2.3")
	same("mcpschedd_config_last_reload_successful", 1)
	for key, p := range s.Tools {
		upstream, tool, split := strings.Cut(key, "/")
		if !split {
			continue
		}
		same("mcpschedd_calls_total", float64(p.Calls), "upstream", upstream, "tool", tool)
		same("mcpschedd_prefetch_issued_total", float64(p.Prefetch.Issued), "tool", tool)
		same("mcpschedd_tool_waited_seconds_total", p.WaitedMS/1000, "tool", tool)
		if h := got["mcpschedd_result_bytes"].GetMetric(); tool == "read" && h[0].GetHistogram().GetSampleSum() != p.ResultKB.Sum*1024 {
			t.Errorf("got results of %v bytes, want %v KiB", h[0], p.ResultKB.Sum)
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if got[name] == nil {
			t.Errorf("no %s", name)
		}
	}
}

// The buckets of a histogram count each call of their tool once.
func TestBuckets(t *testing.T) {
	o := scrapedBusy()
	got, s := parsed(t, o), o.Stats()
	calls := uint64(0)
	for _, m := range got["mcpschedd_latency_seconds"].GetMetric() {
		h := m.GetHistogram()
		calls += h.GetSampleCount()
		last := uint64(0)
		for _, b := range h.Bucket {
			if b.GetCumulativeCount() < last {
				t.Errorf("%v: the buckets fall", m)
			}
			last = b.GetCumulativeCount()
		}
		if last != h.GetSampleCount() {
			t.Errorf("%v: got %d in the last bucket, want all", m, last)
		}
		if is(m, []string{"tool", "get_issue"}) {
			if want := s.Tools["github/get_issue"].WaitedMS / 1000; math.Abs(h.GetSampleSum()-want) > 1e-6 {
				t.Errorf("got a sum of %v s, want %v", h.GetSampleSum(), want)
			}
			if at := h.Bucket[6]; at.GetUpperBound() != 0.1 || at.GetCumulativeCount() != 2 {
				t.Errorf("got %v, want the calls of 30 and 100 ms", at)
			}
		}
	}
	if want := uint64(s.Totals.Calls); calls != want {
		t.Errorf("got %d calls, want %d", calls, want)
	}
}

// Names and types follow the conventions of Prometheus.
func TestLint(t *testing.T) {
	problems, err := promlint.New(scrape(t, scrapedBusy().handler(), "text/plain").Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "mcpschedd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// With any names of tools the text can be parsed, and no two samples have the same labels.
func TestOddNames(t *testing.T) {
	long := strings.Repeat("é", 500)
	odd := []string{
		`quote"back\slash`, "new\nline", "carriage\rreturn", "nul\x00", "\uFFFD", "//", "a/b",
		"mcpschedd_calls_total 5\n# HELP x", "}", "☃", long, long + "1", "(other)",
	}
	s := record.Stats{Tools: map[string]record.Figures{}, Hosts: map[string]record.Host{}, Totals: record.Totals{Declined: map[string]int64{}}}
	want := 0.0
	for i, name := range odd {
		n := int64(i + 1)
		part := record.Figures{Calls: n, Fetched: n, Prefetch: record.PrefetchFigures{Issued: n, Wasted: map[string]int64{name: n}}}
		s.Tools[name] = part
		part.LatencyMS = record.Histogram{N: n, Sum: 1, Counts: make([]uint32, 141)}
		s.Tools["up/"+name] = part
		s.Hosts[name] = record.Host{Level: i}
		s.Totals.Declined[name] = n
		want += float64(n)
	}
	o := scraped{Stats: func() record.Stats { return s }, Version: "1\xff\"\n"}
	got := parsed(t, o)
	if calls := sum(got, "mcpschedd_fetched_total"); calls != 2*want {
		t.Errorf("got %v calls, want %v", calls, 2*want)
	}
	if declined := sum(got, "mcpschedd_declined_total"); declined != want {
		t.Errorf("got %v declined, want %v", declined, want)
	}
	if n := len(got["mcpschedd_host_level"].GetMetric()); n != len(odd) {
		t.Errorf("got %d hosts, want %d", n, len(odd))
	}
	if n := len(got["mcpschedd_latency_seconds"].GetMetric()); n != len(odd) {
		t.Errorf("got %d histograms, want %d", n, len(odd))
	}
	if v := value(t, got, "mcpschedd_calls_total", "upstream", "up", "tool", `quote"back\slash`); v != 1 {
		t.Errorf("got %v, want the name unchanged", v)
	}
}

// A scrape of an empty tally is valid.
func TestEmpty(t *testing.T) {
	got := parsed(t, scraped{Stats: func() record.Stats { return record.Stats{Config: record.Config{Error: "no"}} }})
	if v := value(t, got, "mcpschedd_config_last_reload_successful"); v != 0 {
		t.Errorf("got %v, want 0", v)
	}
	if n := len(got["mcpschedd_latency_seconds"].GetMetric()); n > 0 {
		t.Errorf("got %d histograms of nothing", n)
	}
}
