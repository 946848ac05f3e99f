package record_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mcpschedd/internal/record"
)

// TestRatesFromRawLines computes the rates from the JSON fields of the lines, as the comment of
// ReportLine describes.
func TestRatesFromRawLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tally := record.NewTally(0)
		var hits, prefetches, late, declined, overruns, sizes, turns float64
		for range rapid.IntRange(0, 60).Draw(rt, "lines") {
			e := drawLine(rt)
			e.LatencyMS, e.UpstreamMS, e.HiddenMS, e.BestMS, e.AchievedMS = 1, 1, 1, 1, 1 // JSON has no NaN
			if e.Disposition == "" {
				e.Disposition = record.Fetched
			}
			if e.Fate == "?" {
				e.Fate = record.Compared
			}
			tally.Add(&e)

			var line map[string]any
			text, err := json.Marshal(e)
			if err == nil {
				err = json.Unmarshal(text, &line)
			}
			if err != nil {
				rt.Fatal(err)
			}
			n := func(field string) float64 { v, _ := line[field].(float64); return v }
			kind := line["kind"]
			switch kind {
			case "prefetch":
				prefetches++
				if line["fate"] == "used" || line["fate"] == "late" {
					hits++
				}
			case "choice":
				late += n("late_called")
				reasons, _ := line["declined"].(map[string]any)
				for _, k := range reasons {
					declined += max(0, k.(float64))
				}
			case "plan":
				if line["cancelled"] != true {
					turns += max(0, n("depth")-1)
				}
			}
			if (kind == "prefetch" || kind == "call" && n("use_of") == 0) && n("tokens") > 0 && n("predicted_tokens") > 0 {
				sizes++
				if n("tokens") >= 1.3*n("predicted_tokens") {
					overruns++
				}
			}
		}
		s := tally.Stats(time.Time{})
		f := s.Totals
		want := [4]float64{over(hits, prefetches), over(late, declined), over(overruns, sizes), turns}
		if got := [4]float64{f.Prefetch.Accuracy, f.RecallLoss, f.OverrunShare, float64(f.TurnsSaved.Plan)}; got != want {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}
