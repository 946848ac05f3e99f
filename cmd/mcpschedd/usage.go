package main

import (
	"fmt"
	"io"
)

const usageMain = `usage: mcpschedd COMMAND [flags]

mcpschedd is an MCP proxy: configure it as the one MCP server of your client,
and your servers in its configuration file.

  serve      run the proxy on stdio (also without a command), or with --http ADDR
  demo       play a short agent session, direct and through the proxy
  import     take over the servers that an MCP client is configured with
  add        add one server
  enable     switch an upstream on
  disable    switch one off
  remove     take one out of the configuration
  call       call one tool of one server, and print its answer
  check      validate the configuration; --connect also tries every upstream
  explain    whether a tool is cached and fetched ahead, and why not
  logs       the end of the proxy's log, or of an upstream's stderr
  stats      what was saved today, and how the servers stand
  dashboard  the same in a browser, live
  tune       propose settings for the tools, from what was recorded
  replay     play recorded calls, and say what would have been prefetched
  version    print the version
  help       print this, or the flags of a command: mcpschedd help serve

The configuration is --config FILE, else $MCPSCHEDD_CONFIG, else
$XDG_CONFIG_HOME/mcpschedd/pipeline_config.toml (or ~/.config), else built-in
defaults. The working directory is never searched.
`

const usageServe = `usage: mcpschedd serve [--config FILE] [--http ADDR] [--auth token|none] [--only NAME]

  --config FILE  the configuration (default: see mcpschedd help)
  --http ADDR    serve HTTP on ADDR, such as 127.0.0.1:7777, instead of stdio:
                 /mcp and /mcp/NAME (streamable HTTP), /sse (the older
                 transport), /dashboard, /metrics, /stats, /healthz
  --auth MODE    token (default): clients send the generated bearer token, whose
                 file is logged at start; none: loopback addresses only
  --only NAME    on stdio: one upstream, under its own tool names
`

const usageCheck = `usage: mcpschedd check [--config FILE] [--connect [-v]]

Prints every mistake as file:line: key: message.

  --config FILE  the configuration (default: see mcpschedd help)
  --connect      also start every upstream: a row for each with its tools, how
                 many are cached and fetched ahead, and the line that would
                 change most; warnings of what clients do not take (long names,
                 many tools) and of [tools.*] blocks about tools that do not
                 exist
  -v             also lines to paste for the tools of which nothing says what
                 they do
`

const usageExplain = `usage: mcpschedd explain TOOL [--config FILE] [-v] [--json]

Prints whether answers of a tool are cached and fetched ahead, why not, and the
line of the configuration that would change it. With -v also all that is known
of the tool, and which layer says so: default, annotation (the server's own
word), provider NAME, or FILE:LINE of the configuration.
Starts nothing: annotations are those the server gave when last connected.

  TOOL           upstream/tool, or the name that clients see, upstream__tool, or
                 the tool's own name if no other upstream has it
  --config FILE  the configuration (default: see mcpschedd help)
  -v             print every field of its model
  --json         print it all as JSON

For example:

  mcpschedd explain github/list_issues
`

const usageLogs = `usage: mcpschedd logs [NAME] [-n LINES] [--config FILE]

Prints the last lines of the proxy's log, or of what the upstream NAME has
written to stderr. They are kept in the state folder, in logs.

  -n LINES       how many (default 100)
  --config FILE  the configuration (default: see mcpschedd help)
`

func help(args []string, w io.Writer) error {
	text := usageMain
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			text = usageServe
		case "check":
			text = usageCheck
		case "explain":
			text = usageExplain
		case "demo":
			text = usageDemo
		case "replay":
			text = usageReplay
		case "logs":
			text = usageLogs
		case "import":
			text = usageImport
		case "add":
			text = usageAdd
		case "call":
			text = usageCall
		case "enable", "disable", "remove":
			text = usageEdit
		case "stats":
			text = usageStats
		case "dashboard":
			text = usageDashboard
		case "tune":
			text = usageTune
		default:
			return &usageError{text: fmt.Sprintf("no help on %q", args[0]), usage: usageMain}
		}
	}
	_, err := fmt.Fprint(w, text)
	return err
}
