package tune

// Layer is what is proposed for the configuration, with the evidence for each line.
type Layer struct {
	Blocks  []Block  // in the order of their headings
	Notes   []string // what was seen and is no setting, such as names of tools that nobody knows
	Sources []Source // what was read

	Unclassified []string // tools that were called, and of which nobody says what they do: they are never guessed at
}

// Block is one table of the configuration.
type Block struct {
	Tool  string // upstream/tool, of [tools."upstream/tool"]; "": [enrichment]
	Lines []Line
}

// Line is one proposed setting.
type Line struct {
	Key      string // below the block, dots for nesting: speculate, cost_model.typical_kb, follow_up, invalidates
	Value    string // as TOML, on one line; of follow_up and invalidates one element, an inline table or a string
	Evidence string // one line: how many, how often, over which period
	Advice   bool   // to be thought about: written as a comment, never as a setting
}

// Source is one thing that was read.
type Source struct {
	Name     string // a file or a folder
	Calls    int
	Sessions int
	From, To int64 // ms since 1970, of its calls; 0: not recorded
}
