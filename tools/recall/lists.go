package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/tools/dataset"
)

// listed is a server with its tools.
type listed struct {
	name  string
	tools []string // raw
}

// printTokens prints how many tokens lists take, and the tools that replace them. dir has a file
// for each server; benchmark is the file of LiveMCPBench, with all servers.
func printTokens(out io.Writer, dir, benchmark string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s: no lists", dir)
	}
	var all []listed
	for _, file := range files {
		list, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		one, err := newListed(strings.TrimSuffix(filepath.Base(file), ".json"), list)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	bench, err := readLists(benchmark)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tools\ttokens listed\tsearched\tless\tand three searches\t  servers")
	rows := [][]listed{}
	for _, one := range all {
		rows = append(rows, []listed{one})
	}
	rows = append(rows, slices.DeleteFunc(slices.Clone(all), func(one listed) bool { // those of tpsbench
		return !slices.Contains([]string{"filesystem", "memory", "everything", "sequential-thinking", "ripgrep"}, one.name)
	}))
	for _, servers := range append(rows, all, bench) {
		name := servers[0].name
		if len(servers) > 1 {
			name = fmt.Sprintf("%d servers", len(servers))
		}
		list, _, err := shown(servers, "all", nil)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var names []string
		for tool := range jsonrpc.Elements(list) {
			name, _ := jsonrpc.String(jsonrpc.Get(tool, "name"))
			names = append(names, name)
		}
		short, answers, err := shown(servers, "search", queries(names))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		before, after, said := deliver.Tokens(list), deliver.Tokens(short), 0
		for _, answer := range answers {
			said += deliver.Tokens(answer)
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%.1f %%\t%d\t  %s\n", len(names), before, after, 100*(1-float64(after)/float64(before)), after+3*said/len(answers), name)
	}
	return w.Flush()
}

// queries returns searches for up to twenty of the tools, made of the words in their names and
// others.
func queries(names []string) (out []string) {
	for i := 0; i < len(names); i += 1 + len(names)/20 {
		out = append(out, strings.NewReplacer("_", " ", "-", " ").Replace(names[i])+" for what is to be done")
	}
	return out
}

// shown returns the list of tools that a proxy shows a client, and its answers to find_tools.
func shown(servers []listed, tools string, queries []string) (list []byte, answers [][]byte, err error) {
	o := proxy.Options{Fixed: proxy.Fixed{StartupWait: time.Minute, Selection: catalog.Selection{Tools: tools}}}
	for _, s := range servers {
		web := httptest.NewServer(mcptest.New(mcptest.Options{Capabilities: `{"tools":{}}`, Tools: s.tools}).Handler())
		defer web.Close()
		o.Upstreams = append(o.Upstreams, catalog.Upstream{Fingerprint: s.name, Spec: upstream.Spec{Name: s.name, StartTimeout: time.Minute, URL: web.URL}})
	}
	p := proxy.New(o, nil)
	defer p.Close()
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := p.ServeStdio(context.Background(), in, out, "")
		out.Close()
		done <- err
	}()
	go func() {
		io.WriteString(toProxy, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"recall","version":"1"}}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
		for i, query := range queries {
			arguments, _ := json.Marshal(map[string]string{"query": query})
			fmt.Fprintf(toProxy, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"find_tools","arguments":%s}}`+"\n", 3+i, arguments)
		}
	}()
	defer func() {
		toProxy.Close()
		go io.Copy(io.Discard, fromProxy)
		<-done
	}()
	lines := bufio.NewReaderSize(fromProxy, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, nil, err
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil:
			return nil, nil, err
		case string(m.ID) == "2":
			list = jsonrpc.Get(m.Result, "tools")
		case len(m.ID) > 0 && string(m.ID) != "1":
			for block := range jsonrpc.Elements(jsonrpc.Get(m.Result, "content")) {
				text, _ := jsonrpc.String(jsonrpc.Get(block, "text"))
				answers = append(answers, []byte(text))
			}
		}
		if list != nil && len(answers) == len(queries) {
			return list, answers, nil
		}
	}
}

// readLists returns the servers of LiveMCPBench.
func readLists(dir string) (all []listed, err error) {
	var servers []struct {
		Tools map[string]struct{ Tools json.RawMessage }
	}
	if err := dataset.JSON(filepath.Join(dir, "tools.json.gz"), &servers); err != nil {
		return nil, err
	}
	for i, s := range servers {
		for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
			one, err := newListed(fmt.Sprintf("%s-%d", name, i), s.Tools[name].Tools)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// newListed returns a server with a list of tools, and with a name that a configuration may have.
func newListed(name string, list []byte) (listed, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, list); err != nil {
		return listed{}, err
	}
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name), "-")
	s := listed{name, []string{}} // without a list mcptest's server has tools of its own
	for tool := range jsonrpc.Elements(compact.Bytes()) {
		s.tools = append(s.tools, string(tool))
	}
	return s, nil
}
