package record

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// Vocabulary is the dashboard's names and explanations.
type Vocabulary struct {
	Metrics []metric        `json:"metrics"`
	Reasons map[string]Word `json:"reasons"` // why a candidate was not prefetched
	Causes  map[string]Word `json:"causes"`  // why the result of a prefetch was not used
}

// Word is the display name of a key in the record, and its explanation.
type Word struct {
	Word    string `json:"word"`
	Meaning string `json:"meaning"` // names the related configuration key, if any
}

//go:embed words.json
var wordsFile []byte

// Words returns the names and explanations of metrics, reasons and causes.
var Words = sync.OnceValue(func() Vocabulary {
	v := Vocabulary{Metrics: metricsOfType[Stats]()}
	if err := json.Unmarshal(wordsFile, &v); err != nil {
		panic(err) // the file is embedded
	}
	return v
})

// wordOf returns the word of a reason or cause, or the key itself.
func wordOf(key string) Word {
	for _, table := range []map[string]Word{Words().Reasons, Words().Causes} {
		if w, ok := table[key]; ok {
			return w
		}
	}
	return Word{key, key}
}
