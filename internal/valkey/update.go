package valkey

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// refusals is the channel on which replicas tell each other of hosts that said 429.
const refusedChannel = prefix + "refusals"

// TellRefused tells the other replicas that a host refused a call of this one as one too many,
// and for how long it wants to be left alone (0: it did not say). It does not wait, and what
// does not reach them is lost.
func (s *Store) PublishRefused(host string, retryAfter time.Duration) {
	message := s.id + " " + strconv.FormatInt(retryAfter.Milliseconds(), 10) + " " + host
	go s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Publish().Channel(refusedChannel).Message(message).Build()
	})
}

// Refused has a function called with what other replicas tell of with [Store.TellRefused]. It
// must not wait.
func (s *Store) OnRefused(heard func(host string, retryAfter time.Duration)) {
	s.onRefused.Store(&heard)
}

// heardRefused takes what a replica has told.
func (s *Store) receiveRefused(message string) {
	parts := strings.SplitN(message, " ", 3)
	if len(parts) < 3 || parts[0] == s.id {
		return
	}
	heard := s.onRefused.Load()
	if ms, err := strconv.ParseInt(parts[1], 10, 64); err == nil && heard != nil {
		(*heard)(parts[2], time.Duration(ms)*time.Millisecond)
	}
}

const (
	maxUpdateSize = 16 << 20            // bytes of what the replicas keep together under one name
	updateTTL     = 30 * 24 * time.Hour // until it is forgotten
	updateTries   = 5                   // when another replica was faster
)

// Update replaces what the replicas keep under a name by what next makes of it (nil where
// there is nothing), one replica at a time. next is called again where another replica was
// faster; an error of it leaves what is kept as it is. What was not changed for 30 days is
// forgotten. Others do not wait for it: it has a connection of its own meanwhile.
func (s *Store) Update(ctx context.Context, name string, next func(old []byte) ([]byte, error)) error {
	conn := s.conn.Load()
	if conn == nil || s.down.Load() {
		return errDown
	}
	key := prefix + "kept:" + name
	return (*conn).Dedicated(func(c rueidis.DedicatedClient) error {
		defer c.Do(ctx, c.B().Unwatch().Build())
		for range updateTries {
			if err := c.Do(ctx, c.B().Watch().Key(key).Build()).Error(); err != nil {
				return err
			}
			old, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
			if err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
			text, err := next(old)
			if err == nil && len(text) > maxUpdateSize {
				err = fmt.Errorf("%d bytes are too many for the store of the replicas: expected at most %d", len(text), maxUpdateSize)
			}
			if err != nil {
				return err
			}
			set := c.B().Set().Key(key).Value(rueidis.BinaryString(text)).Px(updateTTL).Build()
			done := c.DoMulti(ctx, c.B().Multi().Build(), set, c.B().Exec().Build())
			if err := done[2].Error(); !rueidis.IsRedisNil(err) { // else another replica was faster
				return err
			}
		}
		return errors.New("other replicas change it all the time")
	})
}
