package main

import (
	_ "embed"

	"github.com/BurntSushi/toml"
)

//go:embed prompts.toml
var promptsText string

// prompts are the texts of prompts.toml, by their names there.
var prompts = func() (p struct{ Selection, Schedule, Serial, Plan, Rate, Score string }) {
	if _, err := toml.Decode(promptsText, &p); err != nil {
		panic(err) // it is part of the program
	}
	return p
}()
