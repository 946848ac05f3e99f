// Command recall measures the search for tools, without a model:
//
//	go run -C tools ./recall DIR
//
// DIR/livemcpbench holds tools.json.gz and all_annotations.json.gz of icip-cas/LiveMCPBench:
// 527 tools of 70 servers, 95 tasks with the tools that they need. DIR/tool-lists holds answers
// of servers to tools/list. It prints how many of the needed tools are found, with and without
// what was learned of other tasks; what the lists cost in tokens beside the tools that stand for
// them; and how long a search takes.
//
// Its one idea: it asks the packages that serve clients, so what it measures is what they get.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve": // as the servers behind the proxy
		err = serve(os.Args[2], os.Stdin, os.Stdout)
	case len(os.Args) == 2:
		err = run(os.Args[1])
	default:
		fmt.Fprintln(os.Stderr, "usage: recall DIR")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "recall: error: %v\n", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	b, err := readBenchmark(filepath.Join(dir, "livemcpbench"))
	if err != nil {
		return err
	}
	b.printRecall(os.Stdout)
	fmt.Println()
	b.printLatency(os.Stdout)
	fmt.Println()
	return printTokens(os.Stdout, filepath.Join(dir, "tool-lists"), filepath.Join(dir, "livemcpbench"))
}
