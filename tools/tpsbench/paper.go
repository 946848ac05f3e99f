package main

import (
	"fmt"
	"io"
	"math"
)

// figure is a row of the paper's Tables 1 and 2: TPS-Bench (Xu, Huang, Liu, Deng), with the
// prices of its Table 4.
type figure struct {
	model, level string
	score, rate  float64 // percent
	in, out      float64 // thousands of tokens
	turns, time  float64 // seconds
	cost, pass   float64 // thousandths of a dollar
}

var published = []figure{
	{"GPT-4o", easy, 94.09, 52.44, 7.2, 0.8, 2.2, 51.2, 52.6, 100.3},
	{"Kimi-K2", easy, 92.87, 73.54, 6.5, 0.8, 3.7, 103.2, 5.9, 8.0},
	{"DeepSeek-R1", easy, 92.19, 68.52, 6.5, 1.1, 2.8, 329.0, 5.8, 8.5},
	{"GLM-4.5", easy, 87.72, 64.91, 11.1, 1.2, 9.5, 123.0, 9.8, 8.5},
	{"QwQ-32B", easy, 85.36, 32.65, 6.5, 1.1, 1.0, 217.6, 2.7, 15.3},
	{"Qwen3-32B", easy, 93.03, 61.60, 6.3, 0.9, 2.5, 202.3, 4.3, 7.0},
	{"Qwen3-1.7B", easy, 78.03, 33.35, 7.3, 1.1, 2.3, 22.2, 0.8, 2.4},
	{"GPT-4o", hard, 87.12, 45.08, 7.2, 1.3, 2.5, 76.84, 62.2, 138.0},
	{"Kimi-K2", hard, 84.49, 52.29, 6.5, 1.1, 19.7, 216.5, 6.5, 12.4},
	{"DeepSeek-R1", hard, 84.41, 62.03, 6.7, 1.4, 6.0, 343.4, 6.7, 10.8},
	{"GLM-4.5", hard, 79.31, 64.72, 12.6, 1.5, 35.0, 217.8, 11.3, 17.5},
	{"QwQ-32B", hard, 70.74, 29.36, 6.7, 1.6, 1.05, 171.0, 3.2, 21.2},
	{"Qwen3-32B", hard, 85.36, 56.72, 6.7, 1.3, 3.1, 226.2, 5.5, 9.7},
	{"Qwen3-1.7B", hard, 65.26, 26.75, 7.8, 2.2, 2.4, 42.0, 1.3, 4.9},
}

// prices are those of the paper's Table 4, of July 30, 2025.
var prices = map[string]Price{
	"GPT-4o": {5, 20}, "Kimi-K2": {0.60, 2.50}, "DeepSeek-R1": {0.55, 2.19}, "GLM-4.5": {0.60, 2.50},
	"Qwen3-32B": {0.28, 2.79}, "QwQ-32B": {0.28, 0.84}, "Qwen3-1.7B": {0.042, 0.42},
}

// recomputed returns a row's cost and cost-of-pass as they follow from its tokens, prices and
// rate, and whether the printed values are consistent with them, given that every figure is
// rounded to its last digit.
func (f *figure) recomputed() (cost, pass float64, costHolds, passHolds bool) {
	p := prices[f.model]
	at := func(by float64) float64 {
		return p.of(int(math.Round((f.in+by)*1000)), int(math.Round((f.out+by)*1000))) * 1000
	}
	cost, pass = at(0), f.cost/(f.rate/100)
	const half = 0.05 + 1e-9
	costHolds = f.cost+half >= at(-0.05) && f.cost-half <= at(0.05)
	passHolds = f.pass+half >= (f.cost-half)/(f.rate/100) && f.pass-half <= (f.cost+half)/(f.rate/100)
	return cost, pass, costHolds, passHolds
}

// claims are statements of the paper's text, and what its tables say.
var claims = []struct{ says, tables string }{
	{"GPT-4o's highest cost is 52.2 thousandths of a euro (section 4.2)", "52.6 thousandths of a dollar on the easy tasks, 62.2 on the hard ones (Table 2)"},
	{"training brings 6 % more completion (sections 1 and 5)", "26.75 % to 35.17 %: 8.4 points, 31 % (Table 3)"},
	{"training takes 14 % of the time away (sections 1 and 5)", "42.0 s to 34.8 s: 17 % (Table 3)"},
}

// printPaper prints the paper's Tables 1 and 2 with the recomputed figures.
func printPaper(out io.Writer) {
	fmt.Fprint(out, "# TPS-Bench's own figures\n\nTables 1, 2 and 4 of the paper. Recomputed: the cost by the tokens and prices, the cost-of-pass by the printed\ncost and rate. A figure that does not follow, however the others were rounded, is marked **!**.\n\n")
	fmt.Fprintln(out, "| model | tasks | selection % | completion % | input k | output k | turns | s | cost, 0.001 $ | recomputed | cost-of-pass | recomputed |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	mark := func(holds bool) string {
		if holds {
			return ""
		}
		return " **!**"
	}
	wrong := 0
	for _, f := range published {
		cost, pass, costHolds, passHolds := f.recomputed()
		if !passHolds {
			wrong++
		}
		fmt.Fprintf(out, "| %s | %s | %.2f | %.2f | %.1f | %.1f | %.4g | %.4g | %.1f | %.2f%s | %.1f | %.2f%s |\n",
			f.model, f.level, f.score, f.rate, f.in, f.out, f.turns, f.time, f.cost, cost, mark(costHolds), f.pass, pass, mark(passHolds))
	}
	fmt.Fprintf(out, "\n%d of %d rows of Table 2 have a cost-of-pass that is not their cost by their rate.\n\n| the text says | the tables say |\n|---|---|\n", wrong, len(published))
	for _, c := range claims {
		fmt.Fprintf(out, "| %s | %s |\n", c.says, c.tables)
	}
}
