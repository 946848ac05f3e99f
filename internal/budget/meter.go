package budget

import lru "github.com/hashicorp/golang-lru/v2"

const (
	defaultBytesPerToken = 4       // until a count is observed
	maxKinds             = 1024    // kinds of text remembered
	halveAt              = 1 << 20 // bytes of a kind after which its counts are halved
)

// Meter estimates the tokens of a text from its bytes and the counts of earlier texts of the same
// kind. It is safe for concurrent use.
type Meter struct {
	kinds *lru.Cache[string, sample] // kind → its counts; "" for all kinds
}

// sample is the sum of the counted texts of a kind.
type sample struct{ bytes, tokens float64 }

// NewMeter returns a meter without counts.
func NewMeter() *Meter {
	kinds, err := lru.New[string, sample](maxKinds)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &Meter{kinds}
}

// Tokens estimates the tokens of a text of a kind.
func (m *Meter) Tokens(kind string, bytes int) int {
	for _, k := range []string{kind, ""} {
		if c, ok := m.kinds.Get(k); ok {
			return int(float64(bytes)*c.tokens/c.bytes + 0.5)
		}
	}
	return (bytes + defaultBytesPerToken - 1) / defaultBytesPerToken
}

// Observe records that a text of a kind had so many bytes and tokens.
func (m *Meter) Observe(kind string, bytes, tokens int) {
	if bytes <= 0 {
		return
	}
	for _, k := range []string{kind, ""} {
		c, _ := m.kinds.Get(k) // concurrent updates may lose a count, which an estimate tolerates
		c.bytes, c.tokens = c.bytes+float64(bytes), c.tokens+float64(tokens)
		if c.bytes > halveAt {
			c.bytes, c.tokens = c.bytes/2, c.tokens/2
		}
		m.kinds.Add(k, c)
	}
}
