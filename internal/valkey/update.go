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

// limitedChannel is the channel on which replicas report hosts that answered 429.
const limitedChannel = prefix + "refusals"

// PublishLimited reports to the other replicas that a host answered 429, and how long it asked
// clients to wait (0 if it did not say). It does not wait, and a report that fails is lost.
func (s *Store) PublishLimited(host string, retryAfter time.Duration) {
	message := s.id + " " + strconv.FormatInt(retryAfter.Milliseconds(), 10) + " " + host
	go s.roundTrip(s.ctx, func(c rueidis.Client, _ string) rueidis.Completed {
		return c.B().Publish().Channel(limitedChannel).Message(message).Build()
	})
}

// OnLimited sets the function called with the reports of other replicas' [Store.PublishLimited].
// The function must not block.
func (s *Store) OnLimited(report func(host string, retryAfter time.Duration)) {
	s.onLimited.Store(&report)
}

// receiveLimited handles a report of another replica.
func (s *Store) receiveLimited(message string) {
	parts := strings.SplitN(message, " ", 3)
	if len(parts) < 3 || parts[0] == s.id {
		return
	}
	report := s.onLimited.Load()
	if ms, err := strconv.ParseInt(parts[1], 10, 64); err == nil && report != nil {
		(*report)(parts[2], time.Duration(ms)*time.Millisecond)
	}
}

const (
	maxUpdateSize = 16 << 20            // bytes under one name
	updateTTL     = 30 * 24 * time.Hour // lifetime without an update
	updateTries   = 5                   // attempts when another replica was faster
)

// Update replaces the shared state under a name with what next returns for it (nil if there is
// none), one replica at a time. If another replica was faster, next is called again. If next
// returns an error, the state is unchanged. State that is not updated for 30 days expires.
// Update uses a connection of its own, so other callers do not wait for it.
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
				err = fmt.Errorf("shared state of %d bytes: expected at most %d", len(text), maxUpdateSize)
			}
			if err != nil {
				return err
			}
			set := c.B().Set().Key(key).Value(rueidis.BinaryString(text)).Px(updateTTL).Build()
			done := c.DoMulti(ctx, c.B().Multi().Build(), set, c.B().Exec().Build())
			if err := done[2].Error(); !rueidis.IsRedisNil(err) { // nil means that another replica was faster
				return err
			}
		}
		return errors.New("other replicas kept changing it")
	})
}
