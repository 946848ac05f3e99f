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

// Of codes that let a browser in.
const (
	codeLife  = 5 * time.Minute
	codesKept = 16 // unused ones; the oldest is dropped first
)

// codes are those that may still be used. An address holds one and not the token:
// what stays of it in a browser's history, or in a log, opens nothing any more.
type codes struct {
	mu  sync.Mutex
	all []code // the oldest first
}

type code struct {
	sum  [sha256.Size]byte // of its text
	made age.Moment
}

// issue makes a code, good once.
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

// redeem reports whether the code is good, and spends it.
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
