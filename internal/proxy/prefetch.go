package proxy

import (
	"context"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// purposePrefetch is said in the _meta of a request that no client made.
const purposePrefetch = `{"mcpschedd/purpose":"prefetch"}`

// prefetch makes a tools/call on a guess: its answer goes into the store, and to
// the client only if that makes the same call. It returns at once, and says why
// if nothing was begun. The guess lives while ctx does, or while a real call
// waits for it.
func (s *session) prefetch(ctx context.Context, l *leased, tool string, arguments []byte) (begun bool, why string) {
	params := jsonrpc.Set(jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, tool)), "arguments", arguments)
	j := &job{s: s, method: "tools/call", tool: tool, params: params}
	p := s.srv.policy.Load()
	m := s.srv.model(p, l, tool)
	if j.judgement = j.judgeCall(p, l, m); !j.storable() || !l.Live() || !l.member.allows(tool) || m.Speculate == nil || !*m.Speculate || m.Cost.Dollars > 0 {
		return false, "not_speculatable"
	}
	if err := s.srv.limits.MayGuess(j.hostOn(l)); err != nil {
		return false, "rate_limited"
	}
	j.arrive([]*leased{l})
	if !j.storable() { // the policy has just changed
		j.drop()
		return false, "not_speculatable"
	}
	begun, why = s.srv.store.Prefetch(ctx, j.query, func(ctx context.Context, f *dedup.Flight) {
		s.srv.work.Go(func() {
			answer, err := j.guess(ctx, l, f, jsonrpc.Set(params, "_meta", []byte(purposePrefetch)))
			f.Settle(answer.Result, answer.Stateless, err == nil && shareable(answer))
		})
	})
	if !begun {
		j.drop()
	}
	return begun, why
}

// guess asks the upstream behind every real call. It takes no turn: nothing may
// wait for it, and what it could overtake keeps it from being stored.
func (j *job) guess(ctx context.Context, l *leased, f *dedup.Flight, params []byte) (upstream.Answer, error) {
	j.s.mu.Lock()
	client := j.s.client
	j.s.mu.Unlock()
	req := &upstream.Request{
		Method: "tools/call", Params: params, Token: true, Timeout: l.member.Timeout, Notify: f.Notify,
		Hop: revision.Hop{Version: revision.Latest, Info: client.Info, Capabilities: client.Capabilities},
		Ask: func(context.Context, string, []byte) ([]byte, *jsonrpc.Error) {
			f.Taint()
			return nil, cannotBeAsked("a prefetch")
		},
	}
	return j.paced(ctx, l, upstream.Turn{}, req, func(ctx context.Context) (*limit.Slot, error) {
		return j.s.srv.limits.Guess(ctx, j.hostOn(l), f.Promoted())
	})
}
