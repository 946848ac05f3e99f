// Command tokens counts the tokens of texts, as the proxy counts those of an answer.
//
// Its one idea: what a script in another language measures is counted by the same
// code that cuts answers to a budget, so that the two never disagree.
//
//	printf '"one text"\n"another"\n' | go run -C tools ./compare/tokens
//
// It reads JSON strings and writes a number for each, a line each. It leaves out
// every vocabulary but the proxy's own (o200k_base).
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

// count writes the number of tokens of each text it reads.
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
