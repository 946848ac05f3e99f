package telemetry

import (
	"cmp"
	"fmt"
	"strings"
)

// Rates are the headline figures. Their formulas are written in terms of the lines of
// the event log, so that anybody can work them out again: of prefetch lines
//
//	prefetch_hit        fate used or late / all
//
// where only the exact call counts, not one of the same tool; of choice lines
//
//	decline_recall_loss Σ late_called / Σ of all numbers in declined
//	recall_loss         Σ late_called / (Σ late_called + prefetch lines used or late)
//
// of prefetch lines, and of call lines without use_of, that have tokens and
// predicted_tokens
//
//	cost_overrun        tokens ≥ 1.3 × predicted_tokens / all
//
// and of plan lines that are not cancelled
//
//	turns_saved         Σ max(0, depth − 1)
//
// A call that was answered from the store saved no turn: the model had already spent
// it. With jq:
//
//	jq -s '[.[]|select(.kind=="prefetch")]|(map(select(.fate=="used" or .fate=="late"))|length)/length'
//	jq -s '[.[]|select(.kind=="choice")]|(map(.late_called//0)|add)/(map(.declined//{}|add//0)|add)'
//	jq -s '[.[]|select(.tokens>0 and .predicted_tokens>0 and (.kind=="prefetch" or .kind=="call" and (.use_of//0)==0))]|(map(select(.tokens>=1.3*.predicted_tokens))|length)/length'
//	jq -s '[.[]|select(.kind=="plan" and (.cancelled|not))|.depth//0|if .>1 then .-1 else 0 end]|add'
//
// A rate of nothing is 0.
type Rates struct {
	PrefetchHit       float64 // of the prefetches
	DeclineRecallLoss float64 // of what was declined: called all the same (the false omission rate)
	RecallLoss        float64 // of what was called and had been thought of: declined before
	CostOverrun       float64 // of the predicted sizes
	TurnsSaved        int64   // requests to a model, by plans
}

// Rates works them out.
func (s *Stats) Rates() Rates {
	f := &s.Totals
	late, declined := float64(f.LateInvoked), float64(sumOf(f.Declined))
	return Rates{
		PrefetchHit:       share(float64(f.Prefetch.Used), float64(f.Prefetch.Issued)),
		DeclineRecallLoss: share(late, declined),
		RecallLoss:        share(late, late+float64(f.Prefetch.Used)),
		CostOverrun:       share(float64(f.CostOverruns), float64(f.Predictions)),
		TurnsSaved:        f.TurnsSaved.Plan + f.TurnsSaved.Inline,
	}
}

// Line is the report line: what came of prefetches and predictions, and what was saved;
// "" if nothing was done. race_win is the share of the prefetches used whose answer was
// there when it was asked for, waste that of all of which nobody used the answer. Of
// served, prefetch are the first uses of prefetches and repeat all other calls that
// were not sent to their upstream.
func (s *Stats) Line() string {
	f, p, r := &s.Totals, &s.Totals.Prefetch, s.Rates()
	declines, wasted := sumOf(f.Declined), sumOf(p.Wasted)
	if cmp.Or(p.Issued, declines, f.Predictions, r.TurnsSaved, f.Repeats, f.BackOffs, int64(f.HiddenMS+0.5), f.TokensSaved) == 0 {
		return ""
	}
	percent := func(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }
	return strings.Join([]string{
		"prefetch_hit=" + percent(r.PrefetchHit),
		"decline_recall_loss=" + percent(r.DeclineRecallLoss),
		"cost_overrun=" + percent(r.CostOverrun),
		"race_win=" + percent(p.Timeliness),
		"waste=" + percent(share(float64(wasted), float64(p.Issued))),
		fmt.Sprintf("turns_saved=%d (plan=%d, inline=%d)", r.TurnsSaved, f.TurnsSaved.Plan, f.TurnsSaved.Inline),
		fmt.Sprintf("served=%d (prefetch=%d, repeat=%d)", p.Used+f.Repeats, p.Used, f.Repeats),
		fmt.Sprintf("backoffs=%d tool_ms_hidden=%.0f tokens_saved=%d", f.BackOffs, f.HiddenMS, f.TokensSaved),
		fmt.Sprintf("prefetches=%d dispatched=%d declines=%d predictions=%d", p.Issued, p.Dispatched, declines, f.Predictions),
	}, " ")
}

func sumOf(m map[string]int64) int64 {
	var sum int64
	for _, n := range m {
		sum += n
	}
	return sum
}
