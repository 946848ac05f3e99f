// Command tpsbench measures how well a model plans and schedules calls of MCP tools behind
// mcpschedd, as TPS-Bench does (Xu, Huang, Liu, Deng: Evaluating AI Agents' Tool Planning &
// Scheduling Abilities in Compounding Tasks). The tasks of TPS-Bench are not public.
//
//	tpsbench generate -easy 10 -hard 10 >tasks.jsonl        compose tasks from subtasks
//	tpsbench convert all_annotations.json.gz >tasks.jsonl   LiveMCPBench's tasks
//	tpsbench run -tasks tasks.jsonl -servers servers.toml -runs runs.jsonl
//	tpsbench report -tasks tasks.jsonl -runs runs.jsonl -page report.html
//	tpsbench trajectories -runs runs.jsonl                  for GRPO trainers
//	tpsbench paper                                          the paper's tables, recomputed
//
// The model and the judge are endpoints with OpenAI's or Anthropic's interface, or the scripted
// model, scripted:well, :serially, :parallel or :badly, which needs neither an endpoint nor money.
// TPSBENCH_KEY has the key of the model, TPSBENCH_JUDGE_KEY that of the judge. The servers are the
// [upstreams.NAME] of a configuration of mcpschedd, in which {{dir}} stands for the working folder,
// a new one for each arm. tpsbench can serve tools without a server, with answers of earlier runs:
//
//	command = "tpsbench"
//	args = ["serve", "tools.json", "runs.jsonl", "NAME__"]
//
// A run is one line with everything that happened, and all figures are computed from these lines.
// So an interrupted experiment can be resumed, and reports can be printed again. There is no user
// to answer questions: every confirmation is given.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/tools/dataset"
	"mcpschedd/tools/launch"
)

func main() { launch.Main("tpsbench", command) }

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "generate":
		return generateCommand(args, stdout, stderr)
	case "convert":
		return convertCommand(args, stdout)
	case "run":
		return runCommand(ctx, args, stdout, stderr)
	case "report", "trajectories":
		return reportCommand(name, args, stdout, stderr)
	case "paper":
		printPaper(stdout)
		return nil
	case "serve":
		return serveCommand(ctx, args, stdout)
	case "distance":
		if len(args) < 2 {
			return errors.New("distance: want a time and a command")
		}
		far, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		return distance(ctx, far, args[1:], os.Stdin, stdout)
	}
	return fmt.Errorf("%q: want generate, convert, run, report, trajectories or paper", name)
}

// modelFlags are the flags for a model: that of the tasks, or with the prefix "judge-" that of the
// judge.
type modelFlags struct {
	names, url, api, price string
	key                    string
	timeout                time.Duration
	longest                int
}

func (m *modelFlags) add(f *flag.FlagSet, prefix, model, key string) {
	f.StringVar(&m.names, prefix+"model", model, "its `NAME`, or scripted:SKILL; of the model several, with commas between")
	f.StringVar(&m.url, prefix+"url", "", "`URL` of the endpoint up to /v1")
	f.StringVar(&m.api, prefix+"api", openAI, openAI+" or "+anthropic)
	f.StringVar(&m.price, prefix+"price", "", "`IN,OUT` in dollars per million tokens; default that of the paper's Table 4")
	f.DurationVar(&m.timeout, prefix+"timeout", 2*time.Minute, "of each request")
	f.IntVar(&m.longest, prefix+"tokens", 4096, "`N` tokens of an answer at most")
	m.key = os.Getenv(key)
}

func (m *modelFlags) list() []string { return strings.Split(m.names, ",") }

func isScripted(name string) (string, bool) { return strings.CutPrefix(name, "scripted:") }

// check returns what is wrong with the flags. A limit in dollars requires prices.
func (m *modelFlags) check(maxUSD float64) error {
	for _, name := range m.list() {
		if skill, ok := isScripted(name); ok {
			if !slices.Contains([]string{well, serially, inParallel, badly}, skill) {
				return fmt.Errorf("%s: want scripted:well, scripted:serially, scripted:parallel or scripted:badly", name)
			}
			continue
		}
		if u, err := url.Parse(m.url); err != nil || u.Host == "" || m.api != openAI && m.api != anthropic {
			return fmt.Errorf("model %q: want a -url, and -api %s or %s", name, openAI, anthropic)
		}
		if price, err := m.priceOf(name); err != nil || maxUSD > 0 && price == (Price{}) {
			return fmt.Errorf("model %q: want a -price of two numbers", name)
		}
	}
	return nil
}

func (m *modelFlags) priceOf(name string) (Price, error) {
	if m.price == "" {
		if _, ok := isScripted(name); ok {
			return prices["GLM-4.5"], nil // the price of some model, so that costs can be compared
		}
		return prices[name], nil
	}
	in, out, _ := strings.Cut(m.price, ",")
	p := Price{}
	var err, err2 error
	p.In, err = strconv.ParseFloat(strings.TrimSpace(in), 64)
	p.Out, err2 = strconv.ParseFloat(strings.TrimSpace(out), 64)
	if p.In < 0 || p.Out < 0 {
		err = fmt.Errorf("-price %s: want 0 or more", m.price)
	}
	return p, errors.Join(err, err2)
}

// endpoint returns a model that pays from a purse.
func (m *modelFlags) endpoint(name string, p *purse) (Model, Price) {
	price, _ := m.priceOf(name) // checked before
	e := endpoint{url: strings.TrimSuffix(m.url, "/"), api: m.api, model: name, key: m.key, timeout: m.timeout, longest: m.longest}
	return patient(p.limit(e.ask, price, m.longest), time.Second), price
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(stderr)
	var model, judge modelFlags
	model.add(f, "", "scripted:well", "TPSBENCH_KEY")
	judge.add(f, "judge-", "scripted:well", "TPSBENCH_JUDGE_KEY")
	tasks := f.String("tasks", "", "`FILE` of tasks")
	runs := f.String("runs", "runs.jsonl", "`FILE` of runs; those in it are not made again, but for failed ones")
	config := f.String("servers", "", "`FILE` with the servers' [upstreams.NAME]")
	bin := f.String("bin", filepath.Join("..", "bin", "mcpschedd"), "the mcpschedd `PROGRAM`")
	tools := f.String("tools", strings.Join(strategies, ","), "which `STRATEGIES` of selection")
	order := f.String("schedules", strings.Join(schedules, ","), "which `SCHEDULES`")
	prefetches := f.String("prefetch", "off,on", "off, on or both")
	most := f.Float64("max-usd", 0, "spend at most so many `DOLLARS`; 0: any, what is in the file of runs counts too")
	think := f.Duration("think", 200*time.Millisecond, "`TIME` before the scripted model says anything")
	word := f.Duration("word", time.Millisecond, "`TIME` for each token that it says")
	far := f.Duration("distance", 0, "put each server so far away: `TIME` of a round trip")
	turns := f.Int("turns", 60, "`N` turns of a task at most")
	slots := f.Int("slots", 8, "`N` calls at once")
	patience := f.Duration("call-timeout", 2*time.Minute, "of each call of a tool")
	atOnce := f.Int("at-once", 2*runtime.NumCPU(), "`N` arms at once")
	train := f.Bool("train", false, "keep the tools that the model is shown, for trajectories")
	work := f.String("work", "", "leave configurations, logs and worlds in `DIR`")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := errors.Join(model.check(*most), judge.check(*most)); err != nil {
		return err
	}
	_, scriptedJudge := isScripted(judge.names)
	for _, name := range model.list() {
		if _, ok := isScripted(name); scriptedJudge && !ok {
			return errors.New("-judge-model: the scripted judge reads the answers of the scripted model alone: want another")
		}
	}
	if *turns < 1 || *slots < 1 || *atOnce < 1 {
		return errors.New("-turns, -slots, -at-once: want 1 or more")
	}
	e := experiment{turns: *turns, patience: *patience, slots: *slots, atOnce: *atOnce, train: *train, progress: stderr, purse: &purse{most: *most}}
	var err error
	if e.arms, err = armsOf(model.list(), *tools, *order, *prefetches); err != nil {
		return err
	}
	if e.tasks, err = readTasks(*tasks); err != nil {
		return err
	}
	if e.servers, err = readServers(*config, *far); err != nil {
		return err
	}
	if e.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if e.work, err = filepath.Abs(*work); *work == "" {
		e.work, err = os.MkdirTemp("", "tpsbench-")
		defer os.RemoveAll(e.work)
	}
	if err != nil {
		return err
	}
	if e.runs, e.done, err = resume(*runs); err != nil {
		return err
	}
	defer e.runs.Close()
	for _, r := range e.done {
		if _, ok := isScripted(r.Model); !ok {
			e.purse.spent += r.Cost + r.Judging
		}
	}
	e.models = func(arm Arm, t Task) (Model, Model, Price, Price) {
		one := func(m *modelFlags, name string, think, word time.Duration) (Model, Price) {
			if skill, ok := isScripted(name); ok {
				price, _ := m.priceOf(name)
				return (&script{task: t, skill: skill, think: think, word: word}).ask, price
			}
			return m.endpoint(name, e.purse)
		}
		model, price := one(&model, arm.Model, *think, *word)
		judge, judgePrice := one(&judge, judge.list()[0], 0, 0)
		return model, judge, price, judgePrice
	}
	err = e.run(ctx)
	printReport(stdout, tally(e.all(), e.tasks, *slots))
	return err
}

// armsOf returns all combinations.
func armsOf(models []string, tools, order, prefetches string) (out []Arm, err error) {
	list := func(text string, known []string) []string {
		names := strings.Split(text, ",")
		for _, n := range names {
			if !slices.Contains(known, n) {
				err = fmt.Errorf("%q: want some of %s", text, strings.Join(known, ","))
			}
		}
		return names
	}
	for _, model := range models {
		for _, strategy := range list(tools, strategies) {
			for _, schedule := range list(order, schedules) {
				for _, mode := range list(prefetches, []string{"off", "on"}) {
					out = append(out, Arm{model, strategy, schedule, mode == "on"})
				}
			}
		}
	}
	return out, err
}

func readServers(name string, far time.Duration) (servers, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return servers{}, err
	}
	self, err := os.Executable()
	return servers{string(text), self, far}, err
}

func generateCommand(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("generate", flag.ContinueOnError)
	f.SetOutput(stderr)
	seed := f.Uint64("seed", 1, "`N`: the same gives the same tasks")
	easyOnes := f.Int("easy", 10, "`N` easy tasks")
	hardOnes := f.Int("hard", 10, "`N` hard tasks")
	most := f.Int("most", mostHard, "`N` subtasks of a hard task at most")
	repository := f.String("subtasks", "", "`FILE` of subtasks to compose; default those for the servers of tpsbench.sh")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *easyOnes < 0 || *hardOnes < 0 || *most <= mostEasy || *most > mostHard {
		return fmt.Errorf("-easy, -hard: want 0 or more; -most: want %d to %d", mostEasy+1, mostHard)
	}
	patterns, err := readPatterns(*repository)
	if err != nil {
		return err
	}
	return writeTasks(stdout, newGenerator(*seed, patterns, *most).tasks(*easyOnes, *hardOnes))
}

func convertCommand(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("convert: want LiveMCPBench's file of annotations")
	}
	found, err := dataset.LiveMCPBench(args[0])
	if err != nil {
		return err
	}
	return writeTasks(stdout, converted(found))
}

func reportCommand(name string, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(stderr)
	tasksFile := f.String("tasks", "", "`FILE` of tasks")
	runsFile := f.String("runs", "runs.jsonl", "`FILE` of runs")
	pageFile := f.String("page", "", "write a page with figures into `FILE`")
	slots := f.Int("slots", 8, "`N` calls at once, for the bound")
	if err := f.Parse(args); err != nil {
		return err
	}
	runs, err := dataset.LinesOf[Run](*runsFile)
	if err != nil {
		return err
	}
	last := make(map[string]int) // key → index of its last run
	for i := range runs {
		last[runs[i].key()] = i
	}
	var kept []Run
	for i, r := range runs {
		if last[r.key()] == i {
			kept = append(kept, r)
		}
	}
	if name == "trajectories" {
		return writeTrajectories(stdout, kept)
	}
	tasks, err := readTasks(*tasksFile)
	if err != nil {
		return err
	}
	rows := tally(kept, tasks, *slots)
	printReport(stdout, rows)
	if *pageFile == "" {
		return nil
	}
	out, err := os.Create(*pageFile)
	if err != nil {
		return err
	}
	return errors.Join(printPage(out, rows, kept, tasks), out.Close())
}

func serveCommand(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 3 {
		return errors.New("serve: want a list of tools, runs, and what stands before the names of the tools in these")
	}
	tools, err := readTools(args[0])
	if err != nil {
		return err
	}
	runs, err := dataset.LinesOf[Run](args[1])
	if err != nil {
		return err
	}
	return launch.Serve(ctx, recorded(tools, runs, args[2]), os.Stdin, stdout)
}
