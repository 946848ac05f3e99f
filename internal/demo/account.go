package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// statsURI is where mcpschedd gives account of itself.
const statsURI = "mcpschedd://stats"

// account is what mcpschedd says that it did, as far as it is shown here.
type account struct {
	Totals struct {
		Calls         int     `json:"calls"` // of the agent
		Stored        int     `json:"served_stored"`
		Joined        int     `json:"joined"`
		Fetched       int     `json:"fetched"`
		Amplification float64 `json:"upstream_amplification"` // calls to the servers for each of the agent's
		HiddenMs      float64 `json:"tool_ms_hidden_prefetch"`

		Declined map[string]int `json:"declined"` // thought of and not made, by reason
		Prefetch struct {
			Issued int            `json:"issued"` // of which it is known what became of them
			Open   int            `json:"open"`   // the others
			Used   int            `json:"used"`
			Late   int            `json:"late"`   // of those: asked for before they were there
			Wasted map[string]int `json:"wasted"` // by cause, so far
		} `json:"prefetch"`
	} `json:"totals"`
}

// issued are the guesses that were made.
func (a *account) issued() int { return a.Totals.Prefetch.Issued + a.Totals.Prefetch.Open }

// account reads what mcpschedd has to say of itself.
func (p *peer) account(ctx context.Context) (*account, error) {
	r, err := p.client.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: statsURI}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statsURI, p.explain(err))
	}
	if len(r.Contents) != 1 {
		return nil, fmt.Errorf("%s: got %d contents, want 1", statsURI, len(r.Contents))
	}
	text, ok := r.Contents[0].(mcp.TextResourceContents)
	if !ok {
		return nil, errors.New(statsURI + ": got no text")
	}
	a := &account{}
	if err := json.Unmarshal([]byte(text.Text), a); err != nil {
		return nil, fmt.Errorf("%s: %w", statsURI, err)
	}
	return a, nil
}

// wasted are the guesses that were of no use, by cause. What nobody had asked for
// when the session was over, nobody will.
func (a *account) wasted() (all int, by map[string]int) {
	p := &a.Totals.Prefetch
	by = maps.Clone(p.Wasted)
	if by == nil {
		by = map[string]int{}
	}
	by["never_asked"] += p.Open
	return a.issued() - p.Used, by
}

// upstream is how many calls the servers got.
func (a *account) upstream() int {
	return int(math.Round(a.Totals.Amplification * float64(a.Totals.Calls)))
}

// listed are counts in words, the largest first, without those that are zero.
func listed(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if n := counts[name]; n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(name, "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}
