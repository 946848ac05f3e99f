package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/age"
)

// Limits of one-time codes.
const (
	codeLife  = 5 * time.Minute
	codesKept = 16 // unused ones; the oldest is dropped first
)

// codes holds the unused one-time codes. An address contains a code and not the token, so that
// a browser's history or a log does not leak access.
type codes struct {
	mu  sync.Mutex
	all []code // oldest first
}

type code struct {
	sum  [sha256.Size]byte // hash of its text
	made age.Moment
}

// issue returns a new code.
func (c *codes) issue() string {
	text := rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	if len(c.all) == codesKept {
		c.all = slices.Delete(c.all, 0, 1)
	}
	c.all = append(c.all, code{sha256.Sum256([]byte(text)), age.Now()})
	return text
}

// redeem reports whether the code is valid, and removes it.
func (c *codes) redeem(text string) bool {
	sum := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	found := -1
	for i := range c.all {
		if subtle.ConstantTimeCompare(c.all[i].sum[:], sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return false
	}
	c.all = slices.Delete(c.all, found, found+1)
	return true
}

func (c *codes) expireLocked() {
	now := age.Now()
	c.all = slices.DeleteFunc(c.all, func(k code) bool { return now.Since(k.made) >= codeLife })
}
