package budget

import lru "github.com/hashicorp/golang-lru/v2"

const (
	defaultBytesPerToken = 4       // of a token, where nothing was counted yet
	maxKinds             = 1024    // of texts that are told apart
	halveAt              = 1 << 20 // bytes counted of a kind, after which older ones count half
)

// Meter estimates how many tokens a text has by its bytes, from texts of the same kind that
// were counted. It may be used by several goroutines.
type Meter struct {
	kinds *lru.Cache[string, sample] // kind → what was counted of it; "": of any
}

// counted are texts that were counted.
type sample struct{ bytes, tokens float64 }

// NewMeter returns a meter that has seen nothing.
func NewMeter() *Meter {
	kinds, err := lru.New[string, sample](maxKinds)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &Meter{kinds}
}

// Tokens is about how many tokens a text of that kind has.
func (m *Meter) Tokens(kind string, bytes int) int {
	for _, k := range []string{kind, ""} {
		if c, ok := m.kinds.Get(k); ok {
			return int(float64(bytes)*c.tokens/c.bytes + 0.5)
		}
	}
	return (bytes + defaultBytesPerToken - 1) / defaultBytesPerToken
}

// Counted takes in that so many bytes of a text of that kind had so many tokens.
func (m *Meter) Observe(kind string, bytes, tokens int) {
	if bytes <= 0 {
		return
	}
	for _, k := range []string{kind, ""} {
		c, _ := m.kinds.Get(k) // of two at once one may go uncounted: it is an estimate
		c.bytes, c.tokens = c.bytes+float64(bytes), c.tokens+float64(tokens)
		if c.bytes > halveAt {
			c.bytes, c.tokens = c.bytes/2, c.tokens/2
		}
		m.kinds.Add(k, c)
	}
}
