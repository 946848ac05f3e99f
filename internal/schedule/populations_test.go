package schedule_test

import (
	"math/rand/v2"
	"testing"

	"mcpschedd/internal/schedule"
)

// outcome is how one DAG went by the queue, beside the bound and other rules.
type outcome struct{ toBound, toWaves, toFIFO, wavesToBound float64 }

// play draws a DAG and 1 to 16 slots. The bound is that of the lengths which the
// tasks really had.
func play(t *testing.T, seed uint64, draw func(*rand.Rand) []schedule.Task, known bool) outcome {
	r := rand.New(rand.NewPCG(seed, 3))
	tasks, slots := draw(r), schedule.Slots{Total: 1 + r.IntN(16)}
	took := exactly(tasks)
	if !known {
		took = about(r, tasks)
	}
	bound := float64(schedule.Bound(actual(tasks, took), slots))
	spans := map[schedule.Rule]float64{}
	for _, rule := range []schedule.Rule{schedule.ByCriticalPath, schedule.FIFO, schedule.Waves} {
		line := schedule.Simulate(tasks, took, slots, rule)
		if err := valid(tasks, took, slots, line); err != nil {
			t.Fatalf("seed %d: rule %d: %v", seed, rule, err)
		}
		spans[rule] = float64(line.Makespan)
	}
	if most := 2 - 1/float64(slots.Total); spans[schedule.ByCriticalPath] > most*bound+1 {
		t.Fatalf("seed %d: got %.3f of the bound, above Graham's %.3f", seed, spans[schedule.ByCriticalPath]/bound, most)
	}
	path, waves := spans[schedule.ByCriticalPath], spans[schedule.Waves]
	return outcome{path / bound, path / waves, path / spans[schedule.FIFO], waves / bound}
}

// By the longest path a random DAG takes on average a fifth less than in waves,
// whether the lengths are known or only about so. Where there is one level or one
// chain waves lose nothing, and 85 % of the patterns are of these two kinds: there
// the waves themselves are within a few per cent of the bound.
func TestPopulations(t *testing.T) {
	t.Log("                        to the bound           to waves        to FIFO  waves to the bound")
	for _, pop := range populations {
		for _, known := range []bool{true, false} {
			var toBound, toWaves, toFIFO, waves tally
			for seed := range uint64(soak(500, 50_000)) {
				o := play(t, seed, pop.draw, known)
				toBound, toWaves = append(toBound, o.toBound), append(toWaves, o.toWaves)
				toFIFO, waves = append(toFIFO, o.toFIFO), append(waves, o.wavesToBound)
			}
			t.Logf("%-12s known %-5v  %.3f p95 %.3f max %.3f  %.3f p5 %.3f  %.3f    %.3f", pop.name, known,
				toBound.mean(), toBound.part(0.95), toBound.part(1), toWaves.mean(), toWaves.part(0.05), toFIFO.mean(), waves.mean())
			if pop.name == "random DAGs" && toWaves.mean() > 0.80 {
				t.Errorf("known %v: got %.3f of waves, want at most 0.80", known, toWaves.mean())
			}
			if toBound.mean() > 1.05 {
				t.Errorf("%s, known %v: got %.3f of the bound, want at most 1.05", pop.name, known, toBound.mean())
			}
		}
	}
}
