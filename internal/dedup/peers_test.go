package dedup_test

import (
	"context"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// sharing are replicas that share an answer. No write is announced to them.
type sharing struct {
	dedup.Peers
	lookup func() // called during each lookup
}

func (p *sharing) Lookup(_ context.Context, places []call.Place) ([]string, error) {
	p.lookup()
	tokens := make([]string, len(places))
	for i := range tokens {
		tokens[i] = "token"
	}
	return tokens, nil
}

func (*sharing) Lead(context.Context, string, []string, func()) (*dedup.SharedAnswer, func(*dedup.SharedAnswer)) {
	return &dedup.SharedAnswer{Body: []byte("shared"), Age: time.Second}, nil
}

// TestSharedAnswerAndOwnWrite: a call that comes after a write of the same replica gets no answer that was
// shared before, also if the write had not been announced when the call's places were looked up.
func TestSharedAnswerAndOwnWrite(t *testing.T) {
	for _, tt := range []struct {
		name           string
		before, during func(s *dedup.Store, write *dedup.PendingWrite) // of the lookup
		place          call.Place                                      // of the write
		want           dedup.Disposition
	}{
		{"pending", nothing, nothing, host, dedup.Fetched},
		{"ends before it is announced", end, nothing, host, dedup.Fetched},
		{"ends during the lookup", nothing, end, host, dedup.Fetched},
		{"may have been one of any place", reclassify, end, edge, dedup.Fetched},
		{"of another place", nothing, nothing, edge, dedup.Joined},
		{"ends, of another place", nothing, end, edge, dedup.Joined},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				peers := &sharing{}
				s := dedup.New(dedup.Options{MaxBytes: 1 << 20, WriteSettle: writeSettle, Peers: peers})
				defer s.Close()
				write := s.RegisterWrite(changes(tt.place))
				tt.before(s, write)
				peers.lookup = func() { tt.during(s, write) }
				q := query(dedup.Reuse{Freshness: time.Hour}, host)
				q.SharedKey = "key"
				if got := (&source{store: s}).ask(t, q); got.How != tt.want {
					t.Errorf("got %s %q, want %s", got.How, got.Body, tt.want)
				}
			})
		})
	}
}

func nothing(*dedup.Store, *dedup.PendingWrite)        {}
func end(_ *dedup.Store, write *dedup.PendingWrite)    { write.End() }
func reclassify(s *dedup.Store, _ *dedup.PendingWrite) { s.Reclassify() }
