package telemetry

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteCSV writes a head, and a line for each session. Names are without control
// characters, and one that a spreadsheet would take for a formula begins with a '; times
// are UTC.
func WriteCSV(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	var head []string
	for _, c := range columns(new(Row)) {
		head = append(head, c.name)
	}
	out.Write(head) // its errors are kept until the end
	for i := range rows {
		var line []string
		for _, c := range columns(&rows[i]) {
			line = append(line, c.value)
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// column is a value of a line, by the name that it has in the JSON.
type column struct{ name, value string }

func columns(r *Row) []column {
	n := func(x int64) string { return strconv.FormatInt(x, 10) }
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	p := &r.Prefetch
	return []column{
		{"process", literal(r.Process)}, {"session", literal(r.Session)}, {"client", literal(r.Client)},
		{"begin", stamp(r.Begin)}, {"end", stamp(r.End)},
		{"calls", n(r.Calls)}, {"reads", n(r.Reads)},
		{"served_stored", n(r.ServedStored)}, {"joined", n(r.Joined)}, {"fetched", n(r.Fetched)}, {"failed", n(r.Failed)},
		{"errors", n(r.Errors)}, {"repeats", n(r.Repeats)}, {"backoffs", n(r.BackOffs)},
		{"upstream_calls", n(r.UpstreamCalls)}, {"upstream_amplification", f(r.Amplification)},
		{"prefetches", n(p.Issued)}, {"dispatched", n(p.Dispatched)}, {"used", n(p.Used)}, {"late", n(p.Late)},
		{"compared", n(p.Compared)}, {"wasted", n(sumOf(p.Wasted))}, {"accuracy", f(p.Accuracy)}, {"timeliness", f(p.Timeliness)},
		{"served_share", f(r.ServedShare)},
		{"candidates", n(r.Candidates)}, {"declined", n(sumOf(r.Declined))}, {"late_invoked_after_decline", n(r.LateInvoked)},
		{"predictions", n(r.Predictions)}, {"cost_overruns", n(r.CostOverruns)},
		{"tool_ms_hidden", f(r.HiddenMS)}, {"tool_ms_hidden_prefetch", f(r.HiddenByPrefetch)}, {"tool_ms_waited", f(r.WaitedMS)},
		{"latency_ms_p50", f(r.LatencyMS.P50)}, {"latency_ms_p90", f(r.LatencyMS.P90)},
		{"context_tokens_saved", n(r.TokensSaved)}, {"tokens_to_client", n(r.TokensToClient)},
		{"plans", n(r.Plans)}, {"plan_steps", n(r.PlanSteps)}, {"turns_saved", n(r.TurnsSaved.Plan + r.TurnsSaved.Inline)},
		{"references", n(r.References)}, {"inlined", n(r.Inlined)},
		{"regret_ms", f(r.RegretMS)}, {"harm_foreground_wait_ms", f(r.Harm.ForegroundWaitMS)}, {"harm_rate_limited", n(r.Harm.RateLimited)},
	}
}

// literal is a name that was given by a stranger, as no more than text.
func literal(name string) string {
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, " ")); strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + printable(name)
	}
	return printable(name)
}

// stamp is a time; "" if it is not known.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000Z")
}
