package deliver

import (
	"math"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"mcpschedd/internal/jsonrpc"
)

// Meter estimates the tokens of results from their bytes and the counts of earlier results. It is safe
// for concurrent use.
type Meter struct {
	samples *rate.Limiter // limits counts, since each takes milliseconds

	mu            sync.Mutex
	bytes, tokens float64 // of the counted results
}

const (
	defaultBytesPerToken = 4       // until a result is counted
	halveAt              = 1 << 20 // counted bytes after which the counts are halved
	maxLearned           = 1 << 20 // bytes of a result that is learned from: decoding a longer one delays its client
	sampleBytes          = 8 << 10 // bytes that are counted; the rest is assumed to be alike

	// mediaTokens is the maximum cost of an image for several model vendors; clients scale
	// larger images down.
	mediaTokens = 1600
)

// NewMeter returns a meter without counts.
func NewMeter() *Meter {
	return &Meter{samples: rate.NewLimiter(10, 16), bytes: defaultBytesPerToken, tokens: 1}
}

// Tokens estimates the tokens of a result, which is a valid JSON text.
func (m *Meter) Tokens(result []byte) int {
	c := contentOf(result)
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(math.Ceil(float64(c.bytes)*m.tokens/m.bytes)) + c.media*mediaTokens
}

// Learn returns a function that counts a sample of the result, to correct later estimates. It
// is meant to run in the background, and retains a copy of the texts. Learn returns nil if the result has
// no text or too much, or enough results were counted of late.
func (m *Meter) Learn(result []byte) (count func()) {
	c := contentOf(result)
	if c.bytes == 0 || c.bytes > maxLearned || !m.samples.Allow() {
		return nil
	}
	texts := c.decoded()
	if texts == "" {
		return nil
	}
	return func() {
		sample := texts[:min(len(texts), sampleBytes)]
		tokens := float64(Tokens([]byte(sample))) * float64(len(texts)) / float64(len(sample))
		m.mu.Lock()
		defer m.mu.Unlock()
		m.bytes, m.tokens = m.bytes+float64(c.bytes), m.tokens+tokens
		if m.bytes > halveAt {
			m.bytes, m.tokens = m.bytes/2, m.tokens/2
		}
	}
}

// content is the part of a result that a model reads. It refers to the result's bytes.
type content struct {
	texts [][]byte // raw
	bytes int      // of texts
	media int      // number of images and other media
}

// contentOf returns the content of a result. structuredContent counts only if there is no text,
// because servers usually send the same data as text.
func contentOf(result []byte) (c content) {
	for block := range jsonrpc.Elements(jsonrpc.Get(result, "content")) {
		resource := jsonrpc.Get(block, "resource")
		switch text := jsonrpc.Get(block, "text"); {
		case text != nil:
			c.add(text)
		case jsonrpc.Get(resource, "text") != nil:
			c.add(jsonrpc.Get(resource, "text"))
		case jsonrpc.Get(block, "data") != nil || resource != nil:
			c.media++
		default:
			c.add(block)
		}
	}
	if structured := jsonrpc.Get(result, "structuredContent"); len(c.texts) == 0 && structured != nil {
		c.add(structured)
	}
	return c
}

func (c *content) add(text []byte) { c.texts, c.bytes = append(c.texts, text), c.bytes+len(text) }

// decoded returns the texts as the model reads them.
func (c *content) decoded() string {
	var b strings.Builder
	for _, raw := range c.texts {
		b.WriteString(text(raw))
	}
	return b.String()
}
