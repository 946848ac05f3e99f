// Command tokens counts the tokens of texts, as the proxy counts those of an answer.
//
// Scripts in other languages use it, so that they count with the code that cuts answers to a budget.
//
//	printf '"one text"\n"another"\n' | go run -C tools ./compare/tokens
//
// It reads JSON strings and writes the number of tokens of each on a line. The only vocabulary is
// the proxy's (o200k_base).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"mcpschedd/internal/deliver"
	"mcpschedd/tools/launch"
)

func main() { launch.Main("tokens", run) }

func run(_ context.Context, _ []string, stdout, _ io.Writer) error { return count(os.Stdin, stdout) }

// count writes the number of tokens of each text that it reads.
func count(in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	for texts, n := json.NewDecoder(in), 1; ; n++ {
		var text string
		err := texts.Decode(&text)
		if errors.Is(err, io.EOF) {
			return w.Flush()
		}
		if err != nil {
			return fmt.Errorf("text %d: %w", n, err)
		}
		fmt.Fprintln(w, deliver.Tokens([]byte(text)))
	}
}
