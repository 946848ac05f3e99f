package record

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// glossary explains metrics, and the reasons and causes in events.
type glossary struct {
	Metrics []metric        `json:"metrics"`
	Reasons map[string]term `json:"reasons"` // why a candidate was declined
	Causes  map[string]term `json:"causes"`  // why the result of a prefetch was not used
}

// term is the display name of a reason or cause, and its explanation.
type term struct {
	Name    string `json:"word"`
	Meaning string `json:"meaning"` // names the related configuration key, if any
}

//go:embed glossary.json
var glossaryFile []byte

// Glossary returns the explanations of metrics, reasons and causes. Its JSON is part of the
// dashboard's page.
var Glossary = sync.OnceValue(func() glossary {
	g := glossary{Metrics: metricsOfType[Stats]()}
	if err := json.Unmarshal(glossaryFile, &g); err != nil {
		panic(err) // the file is embedded
	}
	return g
})

// meaningOf returns the explanation of a reason or cause, or the key itself if there is none.
func meaningOf(key string) string {
	for _, table := range []map[string]term{Glossary().Reasons, Glossary().Causes} {
		if t, ok := table[key]; ok {
			return t.Meaning
		}
	}
	return key
}
