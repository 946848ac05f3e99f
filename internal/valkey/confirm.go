package valkey

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/age"
)

// confirmation is the time until which the primary is trusted where Sentinel or another program
// may promote a standby. A primary that was replaced continues to reply, so a majority of the
// servers must confirm it: each server follows one primary at a time. docs/replicas.md has the
// proof.
type confirmation struct {
	servers int                    // the primary and its standbys; 0 for a single server, which needs no confirmation
	failed  atomic.Pointer[string] // why the last one failed, which is logged once; "" if it did not

	mu      sync.Mutex
	history string     // last confirmed
	first   time.Time  // after its first confirmation
	last    age.Moment // before its last confirmation
}

// confirmationTTL is how long a confirmation is valid: requests sent to the primary later than
// that are not trusted. It is less than the part of Lease left when a request is given up.
func (s *Store) confirmationTTL() time.Duration { return s.options.Lease / 8 }

// writeDelay is how long no write begins in a new history, so that every lookup answered in an
// earlier one began before. It is twice confirmationTTL, as two clocks are compared.
func (s *Store) writeDelay() time.Duration { return 2 * s.confirmationTTL() }

// confirmed reports whether history was confirmed at the time of a request. While the machine slept,
// another primary may have taken over.
func (s *Store) confirmed(history string, asked age.Moment) bool {
	c := &s.confirmation
	if c.servers == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history == history && asked.Since(c.last) <= s.confirmationTTL()
}

// mayBegin reports whether a write announced in history at a time may begin.
func (s *Store) mayBegin(history string, asked time.Time) bool {
	c := &s.confirmation
	if c.servers == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history == history && asked.Sub(c.first) >= s.writeDelay()
}

// standbysNeeded is the number of standbys that form a majority with the primary.
func (c *confirmation) standbysNeeded() int64 { return int64(c.servers / 2) }

// keepConfirming confirms the primary periodically, in the background.
func (s *Store) keepConfirming() {
	s.every(s.confirmationTTL()/4, func() {
		conn := s.conn.Load()
		if conn == nil {
			return
		}
		began := age.Now()
		switch history, err := s.confirm(s.ctx, *conn); {
		case err == nil:
			s.confirmation.record(history, began)
			if *s.confirmation.failed.Swap(new(string)) != "" {
				s.options.Log.Info("the primary of the replicas' store is confirmed", "at", s.address())
			}
		case s.ctx.Err() == nil && err.Error() != *s.confirmation.failed.Load():
			s.confirmation.failed.Store(new(err.Error()))
			s.options.Log.Warn("the primary of the replicas' store is not confirmed by a majority of its servers: no answer is served, and no write is sent", "at", s.address(), "err", err)
		}
	})
}

// record records a confirmation that was started at began.
func (c *confirmation) record(history string, began age.Moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history != history {
		c.history, c.first = history, time.Now()
	}
	c.last = began
}

// confirm writes a value, and waits until the standbys that have it form a majority with the
// primary. It returns the history of the primary. None of those standbys connected to this
// primary after that history began, so they have followed no other since.
func (s *Store) confirm(ctx context.Context, conn rueidis.Client) (history string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.confirmationTTL())
	defer cancel()
	c, release := conn.Dedicate() // WAIT blocks its connection
	defer release()
	info := func() []rueidis.Completed {
		return []rueidis.Completed{c.B().Info().Section("replication").Build(), c.B().Info().Section("stats").Build()}
	}
	all := append(info(),
		c.B().Set().Key(prefix+"confirm:"+s.id).Value(rand.Text()).PxMilliseconds(s.options.Lease.Milliseconds()).Build(),
		c.B().Wait().Numreplicas(s.confirmation.standbysNeeded()).Timeout(max(1, s.confirmationTTL().Milliseconds()/2)).Build())
	results := c.DoMulti(ctx, append(all, info()...)...)
	for _, r := range results {
		if err := r.Error(); err != nil {
			return "", err
		}
	}
	before, err1 := s.historyOf(results)
	after, err2 := s.historyOf(results[4:])
	received, err3 := results[3].AsInt64()
	switch err := cmp.Or(err1, err2, err3); {
	case err != nil:
		return "", err
	case received < s.confirmation.standbysNeeded():
		return "", fmt.Errorf("%d standbys have the last write: expected %d", received, s.confirmation.standbysNeeded())
	case before != after:
		return "", errHistory
	}
	return after, nil
}

// historyOf returns the key prefix of a server's history from its INFO: the section replication and,
// where standbys may be promoted, the section stats. A promoted server, or one that lost its memory,
// has another replication id. Where standbys may be promoted, a history also ends when a standby
// connects or comes back from another primary.
func (s *Store) historyOf(info []rueidis.RedisResult) (string, error) {
	text, err := info[0].ToString()
	if err != nil {
		return "", err
	}
	if infoField(text, "role") != "master" {
		return "", fmt.Errorf("%w: it is not a primary", errDown)
	}
	id := infoField(text, "master_replid")
	if id == "" {
		return "", fmt.Errorf("%w: INFO has no master_replid", errDown)
	}
	if s.confirmation.servers == 0 {
		return prefix + id + ":", nil
	}
	if n, err := strconv.Atoi(infoField(text, "connected_slaves")); err != nil || n >= s.confirmation.servers {
		return "", fmt.Errorf("%w: it has %d standbys: expected fewer than servers=%d", errDown, n, s.confirmation.servers)
	}
	if text, err = info[1].ToString(); err != nil {
		return "", err
	}
	full, partial := infoField(text, "sync_full"), infoField(text, "sync_partial_ok")
	if full == "" || partial == "" {
		return "", fmt.Errorf("%w: INFO has no sync_full or sync_partial_ok", errDown)
	}
	return prefix + id + "-" + full + "-" + partial + ":", nil
}
