package deliver

import (
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"mcpschedd/internal/jsonrpc"
)

// Meter estimates the tokens of results from their bytes and the counts of earlier results of
// the same kind, such as those of one tool. It is safe for concurrent use.
type Meter struct {
	kinds   *lru.Cache[string, counted] // kind → its counts; "" for all kinds
	samples *rate.Limiter               // limits counts, since each takes milliseconds
}

// counted is the sum of the counted results of a kind.
type counted struct{ bytes, tokens float64 }

const (
	defaultBytesPerToken = 4       // until a result is counted
	maxKinds             = 1024    // kinds remembered
	halveAt              = 1 << 20 // bytes of a kind after which its counts are halved

	// mediaTokens is the maximum cost of an image for several model vendors; clients scale
	// larger images down.
	mediaTokens = 1600
)

// NewMeter returns a meter without counts.
func NewMeter() *Meter {
	kinds, err := lru.New[string, counted](maxKinds)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &Meter{kinds: kinds, samples: rate.NewLimiter(10, 16)}
}

// Tokens estimates the tokens of a result of a kind. The result is a valid JSON text.
func (m *Meter) Tokens(kind string, result []byte) int {
	c := contentOf(result)
	return m.tokens(kind, c.bytes) + c.media*mediaTokens
}

func (m *Meter) tokens(kind string, bytes int) int {
	for _, k := range []string{kind, ""} {
		if c, ok := m.kinds.Get(k); ok {
			return int(float64(bytes)*c.tokens/c.bytes + 0.5)
		}
	}
	return (bytes + defaultBytesPerToken - 1) / defaultBytesPerToken
}

// Learn returns a function that counts a sample of the result, to correct later estimates. It
// is meant to run in the background, and retains a copy. Learn returns nil if the result has no
// text, or enough results were counted of late.
func (m *Meter) Learn(kind string, result []byte) (count func()) {
	c := contentOf(result)
	if c.bytes == 0 || !m.samples.Allow() {
		return nil
	}
	texts, read := c.sample()
	if texts == "" {
		return nil
	}
	return func() {
		sample := texts[:min(len(texts), sampleBytes)]
		tokens := float64(Tokens([]byte(sample))) * float64(len(texts)) / float64(len(sample))
		m.observe(kind, float64(read), tokens)
	}
}

// observe records that results of a kind had so many bytes and tokens.
func (m *Meter) observe(kind string, bytes, tokens float64) {
	for _, k := range []string{kind, ""} {
		c, _ := m.kinds.Get(k) // concurrent updates may lose a count, which an estimate tolerates
		c.bytes, c.tokens = c.bytes+bytes, c.tokens+tokens
		if c.bytes > halveAt {
			c.bytes, c.tokens = c.bytes/2, c.tokens/2
		}
		m.kinds.Add(k, c)
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

// sampleBytes is the number of bytes that are counted; the rest is assumed to be alike.
const sampleBytes = 8 << 10

// sample returns the first texts as the model reads them, and the number of their raw bytes.
func (c *content) sample() (texts string, read int) {
	var b strings.Builder
	for _, raw := range c.texts {
		if read > sampleBytes {
			break
		}
		b.WriteString(text(raw))
		read += len(raw)
	}
	return b.String(), read
}
