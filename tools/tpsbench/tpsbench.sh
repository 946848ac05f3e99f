#!/bin/sh
# Twenty generated tasks by the scripted model, in every strategy and schedule, over real MCP
# servers behind mcpschedd: a table on stdout, a page and the runs in results/tpsbench.
#
#   sh tools/tpsbench/tpsbench.sh [FLAG…]    needs go, node 20 and npm, rg; make builds bin/mcpschedd
#
# Flags are those of `tpsbench run`, as in -model NAME -url http://127.0.0.1:8000/v1 -max-usd 5.
# Servers are those that tools/clients installs, in its cache folder. Runs that are there are not
# made again.
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh && need go node npm rg "$bin"
packages tools/clients/package.json >&2
mkdir -p results/tpsbench
node=$(command -v node)
# server NAME SCRIPT [ARGUMENT]
server() { printf '[upstreams.%s]\ncommand = "%s"\nargs = ["%s/node_modules/%s/dist/index.js"%s]\ntrust = true\n' "$1" "$node" "$cache" "$2" "${3:+, \"$3\"}"; }
{
	server files @modelcontextprotocol/server-filesystem '{{dir}}'
	server memory @modelcontextprotocol/server-memory
	echo 'env = { MEMORY_FILE_PATH = "{{dir}}/memory.jsonl" }'
	server everything @modelcontextprotocol/server-everything
	server thinking @modelcontextprotocol/server-sequential-thinking
	server ripgrep mcp-ripgrep
} >"$work/servers.toml"
out=$root/results/tpsbench
go build -C tools -o "$work/tpsbench" ./tpsbench
[ -f "$out/tasks.jsonl" ] || "$work/tpsbench" generate -seed 1 >"$out/tasks.jsonl"
code=0
"$work/tpsbench" run -tasks "$out/tasks.jsonl" -runs "$out/runs.jsonl" -servers "$work/servers.toml" -bin "$bin" \
	-distance 100ms -at-once 12 "$@" >"$out/report.md" || code=$?
"$work/tpsbench" report -tasks "$out/tasks.jsonl" -runs "$out/runs.jsonl" -page "$out/report.html" >/dev/null
cat "$out/report.md"
exit $code
