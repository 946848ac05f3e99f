package valkey

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/dedup"
)

const (
	fetchEndChannel = prefix + "notices" // channel for ends of fetches
	fetchLease      = 10 * time.Second   // how long a replica counts as fetching
	maxLeadWait     = 30 * time.Second   // how long another replica waits for it
	pollInterval    = 500 * time.Millisecond
	maxBody         = 1 << 20   // bytes; larger answers are not shared
	maxSharedAge    = time.Hour // longest time that an answer is shared
	headLength      = 1 + 1 + 8 + 8 + 4 + sha256.Size
)

// leadScript returns an answer shared under these tokens, and its remaining lifetime in ms. If
// there is none, it returns 1 if this replica must fetch, or 0 if another one does.
const leadScript = `
local kept = redis.call('GET', KEYS[1])
if kept and string.sub(kept, 23, 54) == ARGV[1] then return {kept, redis.call('PTTL', KEYS[1])} end
if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return {1} end
return {0}`

// Lead returns an answer that a replica has shared under key and these tokens, or makes this
// replica the one that fetches it.
func (s *Store) Lead(ctx context.Context, key string, tokens []string, onWait func()) (*dedup.SharedAnswer, func(*dedup.SharedAnswer)) {
	sum := tokensDigest(tokens)
	name := digest(key)
	var done <-chan struct{} // nil before each wait
	for began := time.Now(); time.Since(began) < maxLeadWait; {
		// The reply is awaited even if the caller gives up: this replica may have become the one that fetches.
		got, err := s.roundTrip(context.WithoutCancel(ctx), func(c rueidis.Client, history string) rueidis.Completed {
			return c.B().Eval().Script(leadScript).Numkeys(2).Key(history+"a:"+name, history+"f:"+name).
				Arg(string(sum), s.id, strconv.FormatInt(fetchLease.Milliseconds(), 10)).Build()
		})
		if err != nil {
			go s.publishAnswer(name, sum, nil) // likewise
			return nil, nil
		}
		parts, err := got.results[0].ToArray()
		if err != nil || len(parts) == 0 {
			return nil, nil
		}
		if len(parts) == 2 {
			text, _ := parts[0].ToString()
			left, _ := parts[1].AsInt64()
			found := decode(text, left)
			if found == nil {
				return nil, nil
			}
			s.forget(name)
			return found, nil
		}
		if leads, err := parts[0].AsInt64(); err != nil || leads == 1 {
			return nil, func(k *dedup.SharedAnswer) { go s.publishAnswer(name, sum, k) }
		}
		if done == nil {
			done = s.await(name) // check again, as the fetch may have ended just now
			onWait()
			onWait = func() {}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-done:
			done = nil
		case <-time.After(pollInterval): // the fetching replica may have crashed
		}
	}
	return nil, nil
}

// await returns a channel that is closed when another replica's fetch of an answer has ended.
func (s *Store) await(name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.fetchEnded[name]
	if c == nil {
		c = make(chan struct{})
		s.fetchEnded[name] = c
	}
	return c
}

// forget ends all waiting for a fetch of which the answer is there: its notice may have come too early.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.fetchEnded[name]; waiting != nil {
		close(waiting)
		delete(s.fetchEnded, name)
	}
}

// subscribe receives ends of fetches and 429s of hosts, until ctx ends.
func (s *Store) subscribe(ctx context.Context, c rueidis.Client) {
	for ctx.Err() == nil {
		_ = c.Receive(ctx, c.B().Subscribe().Channel(fetchEndChannel, limitedChannel).Build(), func(m rueidis.PubSubMessage) {
			if m.Channel == limitedChannel {
				s.receiveLimited(m.Message)
				return
			}
			s.forget(m.Message)
		})
		sleep(ctx, retryDelay)
	}
}

// keepScript ends a fetch, and shares its answer if there is one.
const keepScript = `
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1`

// publishAnswer ends a fetch, and shares its answer; nil if it must not be shared.
func (s *Store) publishAnswer(name string, sum []byte, k *dedup.SharedAnswer) {
	value, ttl := "", time.Duration(0)
	if k != nil && len(k.Body) <= maxBody {
		if ttl = min(k.MaxAge, maxSharedAge) - k.Age; ttl >= time.Millisecond {
			value = encode(k, sum, ttl)
		}
	}
	_, _ = s.roundTrip(context.Background(), func(c rueidis.Client, history string) rueidis.Completed {
		return c.B().Eval().Script(keepScript).Numkeys(2).Key(history+"a:"+name, history+"f:"+name).
			Arg(s.id, value, strconv.FormatInt(ttl.Milliseconds(), 10), fetchEndChannel, name).Build()
	})
}

// encode encodes an answer: version, stateless flag, age and lifetime (ms), checksum of the
// body, digest of the tokens, and body.
func encode(k *dedup.SharedAnswer, sum []byte, ttl time.Duration) string {
	b := make([]byte, 0, headLength+len(k.Body))
	b = append(b, 1, 0)
	if k.Stateless {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, uint64(k.Age.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(ttl.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(k.Body))
	b = append(b, sum...)
	return string(append(b, k.Body...))
}

// decode decodes an answer that may be served for left ms more; nil if it is not valid.
func decode(text string, left int64) *dedup.SharedAnswer {
	if len(text) < headLength || text[0] != 1 || left < 0 {
		return nil
	}
	b := []byte(text)
	body := b[headLength:]
	elapsed := int64(binary.BigEndian.Uint64(b[10:])) - left
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(b[18:]) || elapsed < 0 { // truncated, or the server's clock was set back
		return nil
	}
	age := int64(binary.BigEndian.Uint64(b[2:])) + elapsed + 2 // for two roundings
	return &dedup.SharedAnswer{Body: body, Stateless: b[1] == 1, Age: time.Duration(age) * time.Millisecond}
}

// tokensDigest is the digest of a list of tokens.
func tokensDigest(tokens []string) []byte {
	h := sha256.New()
	for _, t := range tokens {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(t))))
		h.Write([]byte(t))
	}
	return h.Sum(nil)
}

// digest returns the digest of a text in hexadecimal.
func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
