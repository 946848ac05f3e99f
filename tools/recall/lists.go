package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/tools/dataset"
)

// listed is a server with the tools in a file.
type listed struct{ name, file string }

// printTokens prints how many tokens lists take, and the tools that replace them. dir has a file
// for each server; benchmark is the file of LiveMCPBench, with all servers.
func printTokens(out io.Writer, dir, benchmark string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s: no lists", dir)
	}
	var all []listed
	for _, file := range files {
		all = append(all, listed{serverName(strings.TrimSuffix(filepath.Base(file), ".json")), file})
	}
	work, err := os.MkdirTemp("", "recall")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	bench, err := writeLists(work, benchmark)
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
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	o := proxy.Options{Fixed: proxy.Fixed{StartupWait: time.Minute, Selection: proxy.Selection{Tools: tools}}}
	for _, s := range servers {
		o.Upstreams = append(o.Upstreams, proxy.Upstream{Fingerprint: s.name, Spec: upstream.Spec{
			Name: s.name, StartTimeout: time.Minute, MaxMessage: 64 << 20, Command: upstream.Command{Path: self, Args: []string{"serve", s.file}},
		}})
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

// writeLists writes a list for each server of LiveMCPBench.
func writeLists(work, dir string) (all []listed, err error) {
	var servers []struct {
		Tools map[string]struct{ Tools json.RawMessage }
	}
	if err := dataset.JSON(filepath.Join(dir, "tools.json.gz"), &servers); err != nil {
		return nil, err
	}
	for i, s := range servers {
		for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
			file := filepath.Join(work, fmt.Sprintf("%d.json", len(all)))
			if err := os.WriteFile(file, s.Tools[name].Tools, 0o600); err != nil {
				return nil, err
			}
			all = append(all, listed{serverName(fmt.Sprintf("%s-%d", name, i)), file})
		}
	}
	return all, nil
}

// serverName returns a valid name for a server in a configuration.
func serverName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name), "-")
}

// serve is a server on stdio that only lists the tools in a file.
func serve(file string, in io.Reader, out io.Writer) error {
	list, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, list); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || m.ID == nil {
			continue
		}
		var answer []byte
		switch m.Method {
		case "initialize":
			answer = jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"list","version":"1"}}`))
		case "tools/list":
			answer = jsonrpc.AppendResult(nil, m.ID, []byte(`{"tools":`+compact.String()+`}`))
		default:
			answer = jsonrpc.AppendError(nil, m.ID, []byte(`{"code":-32601,"message":"no"}`))
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
}
