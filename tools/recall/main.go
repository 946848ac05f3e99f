// Command recall measures the search for tools, without a model:
//
//	go run -C tools ./recall DIR
//
// DIR/livemcpbench has tools.json.gz and all_annotations.json.gz of icip-cas/LiveMCPBench: 527
// tools of 70 servers, and 95 tasks with the tools that they need. DIR/tool-lists has responses of
// servers to tools/list. It prints how many of the needed tools are found, with and without what
// was learned from other tasks; how many tokens the lists take, and the tools that replace them; and
// how long a search takes.
//
// It calls the packages that serve clients, so it measures what clients get.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"mcpschedd/tools/launch"
)

func main() { launch.Main("recall", run) }

func run(_ context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) != 1 {
		return errors.New("want DIR")
	}
	dir := args[0]
	b, err := readBenchmark(filepath.Join(dir, "livemcpbench"))
	if err != nil {
		return err
	}
	b.printRecall(stdout)
	fmt.Fprintln(stdout)
	b.printLatency(stdout)
	fmt.Fprintln(stdout)
	return printTokens(stdout, filepath.Join(dir, "tool-lists"), filepath.Join(dir, "livemcpbench"))
}
