package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// makeWorld creates the working folder of a cell's servers, with the same content for all cells.
func makeWorld(dir string) error {
	files := make(map[string]string) // name → content
	for n := range size {
		files[fmt.Sprintf("notes/note-%d.txt", n)] = fmt.Sprintf("Note %d: %s stands by the %s, %d paces on.", n, words[n%len(words)], words[(n+2)%len(words)], 7*n)
		for i := range mostHard {
			files[fmt.Sprintf("trail/%d-%d.txt", n, i)] = filepath.Join(dir, "trail", fmt.Sprintf("%d-%d.txt", n, i+1))
		}
	}
	files["out/readme.txt"] = "What tasks write comes here."
	var graph []string
	for _, p := range people {
		graph = append(graph, fmt.Sprintf(`{"type":"entity","name":%q,"entityType":"person","observations":["lives by the %s"]}`, p, words[len(p)%len(words)]))
	}
	for i, p := range people {
		graph = append(graph, fmt.Sprintf(`{"type":"relation","from":%q,"to":%q,"relationType":"works with"}`, p, people[(i+3)%len(people)]))
	}
	files["memory.jsonl"] = strings.Join(graph, "\n") + "\n"
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
