package valkey

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// confirmation says until when a primary is relied on, where Sentinel or another program may have a
// standby take its place. A primary that was replaced goes on answering, so a majority of the
// servers has to confirm it: each of them follows one primary at a time. docs/replicas.md has
// the proof.
type confirmation struct {
	servers int // the primary and its standbys; 0: there is one server, and nothing to confirm

	mu      sync.Mutex
	history string    // that was confirmed last
	first   time.Time // when it had been confirmed for the first time
	last    time.Time // before it was confirmed last
}

// valid is for how long a confirmation holds: what was asked of the primary later than that
// after it is not relied on. It is less than the part of Lease that is left when a request is
// given up.
func (s *Store) confirmationTTL() time.Duration { return s.options.Lease / 8 }

// hold is for how long no write begins in a new history: all lookups that an earlier one
// answered began before. Twice as long as a confirmation holds, as two clocks are compared.
func (s *Store) writeDelay() time.Duration { return 2 * s.confirmationTTL() }

// confirmed reports whether a history had been confirmed when something was asked in it.
func (s *Store) confirmed(history string, asked time.Time) bool {
	c := &s.confirmation
	if c.servers == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history == history && asked.Sub(c.last) <= s.confirmationTTL()
}

// mayBegin reports whether a write may begin that was announced in a history.
func (s *Store) mayBegin(history string, asked time.Time) bool {
	c := &s.confirmation
	if c.servers == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history == history && asked.Sub(c.first) >= s.writeDelay()
}

// needed is how many standbys make a majority with the primary.
func (c *confirmation) standbysNeeded() int64 { return int64(c.servers / 2) }

// keepConfirming has the primary confirmed again and again, until ctx ends.
func (s *Store) keepConfirming(ctx context.Context) {
	tick := time.NewTicker(s.confirmationTTL() / 4)
	defer tick.Stop()
	said := ""
	for {
		if conn := s.conn.Load(); conn != nil {
			began := time.Now()
			switch history, err := s.confirm(ctx, *conn); {
			case err == nil:
				said = ""
				s.confirmation.record(history, began)
			case ctx.Err() == nil && err.Error() != said:
				said = err.Error()
				s.options.Log.Warn("the primary of the replicas' store is not confirmed by a majority of its servers: nothing is served from it, and no write is sent", "at", s.address(), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note notes a confirmation that began at a time.
func (c *confirmation) record(history string, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.history != history {
		c.history, c.first = history, time.Now()
	}
	c.last = began
}

// confirm writes something, and waits until as many standbys have it as make a majority with
// the primary. It returns the history in which they did: none of them came to this primary
// after that history had begun, so they have followed no other since.
func (s *Store) confirm(ctx context.Context, conn rueidis.Client) (history string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.confirmationTTL())
	defer cancel()
	c, release := conn.Dedicate() // waiting keeps others from using a connection
	defer release()
	about := func() []rueidis.Completed {
		return []rueidis.Completed{c.B().Info().Section("replication").Build(), c.B().Info().Section("stats").Build()}
	}
	all := append(about(),
		c.B().Set().Key(prefix+"confirm:"+s.id).Value(rand.Text()).PxMilliseconds(s.options.Lease.Milliseconds()).Build(),
		c.B().Wait().Numreplicas(s.confirmation.standbysNeeded()).Timeout(max(1, s.confirmationTTL().Milliseconds()/2)).Build())
	results := c.DoMulti(ctx, append(all, about()...)...)
	for _, r := range results {
		if err := r.Error(); err != nil {
			return "", err
		}
	}
	before, err := s.historyOf(results[0], results[1])
	if err != nil {
		return "", err
	}
	after, err := s.historyOf(results[4], results[5])
	if err != nil {
		return "", err
	}
	have, err := results[3].AsInt64()
	switch {
	case err != nil:
		return "", err
	case have < s.confirmation.standbysNeeded():
		return "", fmt.Errorf("%d standbys have what was written last, and %d are needed", have, s.confirmation.standbysNeeded())
	case before != after:
		return "", errHistory
	}
	return after, nil
}

// historyOf is what keys begin with at a server that says this of itself. One that has been
// replaced, or has lost its memory, has another replication id; where standbys take over
// a history also ends when a standby comes, or comes back from another primary.
func (s *Store) historyOf(replication, stats rueidis.RedisResult) (string, error) {
	text, err := replication.ToString()
	if err != nil {
		return "", err
	}
	if infoField(text, "role") != "master" {
		return "", fmt.Errorf("%w: it is no primary", errDown)
	}
	id := infoField(text, "master_replid")
	if id == "" {
		return "", fmt.Errorf("%w: it does not tell its replication id", errDown)
	}
	if s.confirmation.servers == 0 {
		return prefix + id + ":", nil
	}
	if n, err := strconv.Atoi(infoField(text, "connected_slaves")); err != nil || n >= s.confirmation.servers {
		return "", fmt.Errorf("%w: it has %d standbys, and %d servers were said to be all", errDown, n, s.confirmation.servers)
	}
	if text, err = stats.ToString(); err != nil {
		return "", err
	}
	whole, part := infoField(text, "sync_full"), infoField(text, "sync_partial_ok")
	if whole == "" || part == "" {
		return "", fmt.Errorf("%w: it does not tell how often a standby came", errDown)
	}
	return prefix + id + "-" + whole + "-" + part + ":", nil
}
