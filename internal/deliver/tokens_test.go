package deliver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"

	"mcpschedd/internal/deliver"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]int{
		"":                   0,
		"hello world":        2,
		"tiktoken is great!": 6, // as in the OpenAI cookbook
		"<|endoftext|>":      7, // plain text, not the end token
	} {
		if got := deliver.Tokens([]byte(text)); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// Counting in pieces gives almost the same number as counting the whole text.
func TestTokensPieceByPiece(t *testing.T) {
	texts := map[string]string{
		"no word at all": strings.Repeat("{[(", 400) + " " + strings.Repeat("=", 100),
		"apostrophes":    strings.Repeat("it's we'll they'RE I'd 'tis ", 200),
		"accents":        strings.Repeat("e\u0301te\u0301 Ångström naïve ", 200),
		"numbers":        strings.Repeat("1234567 1,234.5 ", 300),
		"Chinese":        strings.Repeat("你好，世界。今天天气很好！", 200),
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(b)
	}
	whole := codec.NewO200kBase()
	for name, text := range texts {
		want, err := whole.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		slack := 2 * (len(text)/512 + 1)
		if got := deliver.Tokens([]byte(text)); got < want-slack || got > want+slack {
			t.Errorf("%s: got %d, want %d ± %d", name, got, want, slack)
		}
	}
}

// The tokenizer alone takes quadratic time here, which is minutes.
func TestTokensOfBlankLines(t *testing.T) {
	text := strings.Repeat(" \n", 100<<10)
	if got := deliver.Tokens([]byte(text)); got < len(text)/8 || got > len(text) {
		t.Errorf("got %d tokens of %d bytes", got, len(text))
	}
}
