package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// Commands and statements; those that only read come first.
var (
	commands   = []string{"ls -l", "cat README.md", "git status", "rm -rf build", "git commit -m x", "cat a > b", "ls; rm b", "echo $(rm c)", "curl http://x.test", "find . -delete"}
	statements = []string{"SELECT 1", "SELECT a FROM b WHERE c = 2", "DELETE FROM b", "SELECT 1; DROP TABLE b", "UPDATE b SET a = 1", "INSERT INTO b VALUES (1)", "WITH x AS (DELETE FROM b RETURNING *) SELECT * FROM x", "SELECT pg_sleep(10)"}
)

const reads = 3 // number of commands that only read; of statements one less

// A prefetch never has a side effect. Whatever follow-ups are configured or learned, and whatever
// annotations an untrusted server gives, a call is not prefetched if it may write, is
// unclassified, discloses data to third parties, costs money or is barred. If a tool is classified
// by its arguments, only calls that read are prefetched.
func TestHarmNeverWrites(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range uint64(soak(3)) {
		bubble.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			f := newFoe(func(v *visit) reply {
				v.sleeps(300 * time.Millisecond)
				if v.tool == "list" {
					return reply{result: said(offer(r))}
				}
				return reply{result: v.told()}
			}, hinted("list", "get", "run", "query", "write", "unknown", "never", "tell", "status", "dear")...)
			g := beset(t, f, everything(t)).enter()
			for range 25 {
				rambles(g, r)
			}
			synctest.Wait()
			for _, v := range early(f.ledger()) {
				if !harmless(&v) {
					t.Errorf("seed %d: a prefetch at %s %s", seed, v.tool, v.arguments)
				}
				seen[v.tool]++
			}
		})
	}
	for _, tool := range []string{"get", "run", "query"} {
		if seen[tool] == 0 {
			t.Errorf("no prefetch of %s: %v", tool, seen)
		}
	}
}

// offer is the answer of list: a command, a statement and an item.
func offer(r *rand.Rand) string {
	return fmt.Sprintf(`{"command":%s,"sql":%s,"things":[{"n":%d}]}`,
		jsonrpc.AppendString(nil, commands[r.IntN(len(commands))]), jsonrpc.AppendString(nil, statements[r.IntN(len(statements))]), r.IntN(1000)+1)
}

// everything returns options in which every tool follows list, with learning on.
func everything(t *testing.T) proxy.Options {
	t.Helper()
	follow := func(tool, argument, binding string) valuemodel.FollowUp {
		return valuemodel.FollowUp{Tool: tool, Probability: 0.95, Args: map[string]valuemodel.Binding{argument: bound(t, binding)}}
	}
	layers := map[string]valuemodel.Layer{
		"list":   {Class: valuemodel.ReadOnly},
		"get":    {Class: valuemodel.ReadOnly},
		"run":    {Classify: valuemodel.Shell},
		"query":  {Classify: valuemodel.SQL},
		"write":  {Class: valuemodel.MutatesLocal},
		"never":  {Class: valuemodel.ReadOnly, Speculate: new(false)},
		"tell":   {Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty},
		"status": {Class: valuemodel.ReadOnly, Volatile: new(true)},
		"dear":   {Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Dollars: 0.01}},
	}
	list := layers["list"]
	list.FollowUps = []valuemodel.FollowUp{follow("run", "command", "$result.command"), follow("query", "sql", "$result.sql")}
	for _, tool := range []string{"get", "write", "unknown", "never", "tell", "status", "dear"} {
		list.FollowUps = append(list.FollowUps, follow(tool, "n", "$result.things[0].n"))
	}
	layers["list"] = list
	var rules []valuemodel.Rule
	for name, l := range layers {
		rules = append(rules, valuemodel.Rule{Pattern: "foe/" + name, Source: "test", Layer: l})
	}
	slices.SortFunc(rules, func(a, b valuemodel.Rule) int { return strings.Compare(a.Pattern, b.Pattern) })
	return defaults(t, rules...)
}

// rambles calls list, and then some of the tools with values from its answer.
func rambles(g *guest, r *rand.Rand) {
	a := g.call("list", fmt.Sprintf(`{"page":%d}`, r.IntN(1000)+1))
	said := []byte(firstText(a.Result))
	get := func(name string) []byte { return jsonrpc.Get(said, name) }
	n := jsonrpc.At(said, "/things/0/n")
	for range r.IntN(4) + 1 {
		time.Sleep(time.Duration(r.Int64N(int64(4*time.Second))) + 10*time.Millisecond)
		switch name := []string{"run", "query", "get", "get", "write", "unknown", "never", "tell", "status", "dear"}[r.IntN(10)]; name {
		case "run":
			g.call(name, fmt.Sprintf(`{"command":%s}`, get("command")))
		case "query":
			g.call(name, fmt.Sprintf(`{"sql":%s}`, get("sql")))
		default:
			g.call(name, fmt.Sprintf(`{"n":%s}`, n))
		}
	}
	time.Sleep(3 * time.Second)
}

// harmless reports whether a call may be prefetched.
func harmless(v *visit) bool {
	arguments := []byte(v.arguments)
	switch v.tool {
	case "list", "get":
		return true
	case "run":
		command, _ := jsonrpc.String(jsonrpc.Get(arguments, "command"))
		return slices.Contains(commands[:reads], command)
	case "query":
		sql, _ := jsonrpc.String(jsonrpc.Get(arguments, "sql"))
		return slices.Contains(statements[:reads-1], sql)
	}
	return false
}
