package clients

// Options say how files are read. The zero value works.
type Options struct {
	Dir   string   // folder of the project whose own servers Claude Code would use; "": none
	Home  string   // the user's home folder: a file just below it belongs to no project
	OS    string   // as runtime.GOOS has it; "": one with $HOME
	Taken []string // variables that mean something already: no secret is named so
}

// Server is one upstream.
type Server struct {
	Name       string      `json:"name"`                // for [upstreams.NAME], and unlike all others
	Was        string      `json:"was,omitempty"`       // what the client calls it, if that is another name
	File       string      `json:"file"`                // where it stands
	Pointer    string      `json:"pointer"`             // in that, as a JSON pointer
	Scope      string      `json:"scope,omitempty"`     // of Claude Code's own file: user, local
	Command    string      `json:"command,omitempty"`   // "" for a url
	Args       []string    `json:"args,omitempty"`      //
	Cwd        string      `json:"cwd,omitempty"`       // "": the client's
	Env        []Pair      `json:"env,omitempty"`       // in the order of the file
	EnvFile    string      `json:"env_file,omitempty"`  //
	URL        string      `json:"url,omitempty"`       //
	Transport  string      `json:"transport,omitempty"` // sse, or "": streamable HTTP first
	Headers    []Pair      `json:"headers,omitempty"`   // in the order of the file
	Disabled   bool        `json:"disabled,omitempty"`  //
	AllowTools []string    `json:"allow_tools,omitempty"`
	DenyTools  []string    `json:"deny_tools,omitempty"`
	Provider   string      `json:"provider,omitempty"`  // that its command or url names: a proposal
	Variables  []*Variable `json:"variables,omitempty"` // to be set before it runs
	Notes      []string    `json:"notes,omitempty"`     // what did not come along, or is not what it was
}

// Pair is an environment variable of a server, or a header.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"` // with ${NAME} in it, never a secret
}

// Variable stands in a server for what was not taken over.
type Variable struct {
	Name    string `json:"name"`
	File    string `json:"file"`    // where its value stands
	Pointer string `json:"pointer"` // in that, as a JSON pointer
	Part    bool   `json:"part"`    // its value is a part of what stands there: the one that ${NAME} stands for
	Asked   bool   `json:"asked"`   // no file has it: the client asks for it, or fills it in
}

// Note is something about a file that concerns no imported server: one that was left
// out, or could not be read.
type Note struct {
	Where   string `json:"where"` // FILE, or FILE:LINE
	Pointer string `json:"pointer,omitempty"`
	Text    string `json:"text"`
	Wrong   bool   `json:"wrong"` // a mistake in the file, not a choice of ours
}

// String is where: pointer: text, on one line.
func (n Note) String() string {
	if n.Pointer == "" {
		return OneLine(n.Where + ": " + n.Text)
	}
	return OneLine(n.Where + ": " + n.Pointer + ": " + n.Text)
}

// Import is what a [Reader] has read.
type Import struct {
	Servers []Server `json:"servers"`
	Notes   []Note   `json:"notes"`
	Self    []string `json:"self,omitempty"` // files that have mcpschedd among their servers already
}
