#!/bin/sh
# Real MCP servers and real MCP clients around mcpschedd: servers are asked
# direct and through the proxy and must answer the same; clients then use one
# proxy that joins them all.
#
#   sh tools/clients/clients.sh             needs go, node 20 and npm; make builds bin/mcpschedd
#   CLAUDE=1 sh tools/clients/clients.sh    Claude Code's own connection check too (356 MB)
#
# Packages are installed into a cache folder of their own. What else a server
# needs (rg, git) is skipped with a word if it is not there. Every process runs
# within a time limit, on loopback or pipes.
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh && need go node npm "$bin"

# check LABEL PATTERN COMMAND…: the command ends well and prints the pattern.
check() {
	label=$1 pattern=$2
	shift 2
	if timeout 90 "$@" >"$work/out" 2>"$work/err" </dev/null && grep -q -e "$pattern" "$work/out"; then
		ok "$label"
	else
		fail "$label (want $pattern)"
		tail -n 20 "$work/out" "$work/err"
	fi
}

# checks COMMAND…: the command prints its own ok and FAIL lines.
checks() {
	code=0
	timeout 120 "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
	cat "$work/out"
	passed=$((passed + $(grep -c '^ok ' "$work/out" || :)))
	bad=$(grep -c '^FAIL ' "$work/out" || :)
	failed=$((failed + bad))
	if [ "$code" != 0 ]; then
		[ "$bad" != 0 ] || fail "$*: exit code $code"
		tail -n 20 "$work/err"
	fi
}

packages tools/clients/package.json

# go_built NAME MODULE VERSION [PACKAGE]: a server written in Go, unless it does not build here.
go_built() { go_server "$@" >"$work/err" 2>&1 || { skip "$1: does not build here"; tail -n 3 "$work/err"; return 1; }; }

# What the servers work on.
project=$work/project
mkdir -p "$project"
printf 'a needle in a haystack: \303\274, 9007199254740993\n' >"$project/hay.txt"
printf 'module example\n\ngo 1.24\n' >"$project/go.mod"
printf 'package main\n\nfunc main() { println(answer()) }\n\nfunc answer() int { return 42 }\n' >"$project/main.go"
printf '{"type":"entity","name":"Ada","entityType":"person","observations":["counts"]}\n' >"$work/memory.jsonl"

servers=
# server NAME ENV CALLS COMMAND ARGUMENT…: one more to compare. ENV is a JSON
# object, CALLS the inside of a JSON array.
server() {
	head="{\"name\":\"$1\",\"env\":$2,\"cwd\":\"$project\",\"calls\":[$3],\"command\":\"$4\",\"args\":["
	shift 4
	tail= comma=
	for a; do tail="$tail$comma\"$a\"" comma=,; done
	servers="$servers${servers:+,
}$head$tail]}"
}
# tool NAME ARGUMENTS [META]: a call.
tool() { printf '{"method":"tools/call","params":{"name":"%s","arguments":%s%s}}' "$1" "$2" "${3:+,\"_meta\":$3}"; }

node=$(command -v node)
npm=$cache/node_modules
server filesystem '{}' "$(tool list_allowed_directories '{}'),$(tool read_text_file "{\"path\":\"$project/hay.txt\"}"),
$(tool directory_tree "{\"path\":\"$project\"}"),$(tool read_text_file '{"path":"/etc/hostname"}')" \
	"$node" "$npm/@modelcontextprotocol/server-filesystem/dist/index.js" "$project"
server everything '{}' "$(tool echo '{"message":"<&> \u2028 9007199254740993"}'),$(tool get-tiny-image '{}'),
$(tool get-structured-content '{"location":"Chicago"}'),$(tool get-annotated-message '{"messageType":"error","includeImage":true}'),
$(tool get-resource-links '{"count":3}'),$(tool get-roots-list '{}'),$(tool trigger-elicitation-request '{}'),
$(tool trigger-sampling-request '{"prompt":"p","maxTokens":5}'),$(tool no-such-tool '{}'),
$(tool trigger-long-running-operation '{"duration":1,"steps":4}' '{"progressToken":"p-1"}'),
{\"method\":\"prompts/get\",\"params\":{\"name\":\"args-prompt\",\"arguments\":{\"city\":\"Ulm\"}}},
{\"method\":\"resources/read\",\"params\":{\"uri\":\"demo://resource/static/document/features.md\"}},
{\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"completable-prompt\"},\"argument\":{\"name\":\"department\",\"value\":\"E\"}}},
{\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/resource\",\"uri\":\"demo://resource/dynamic/text/{resourceId}\"},\"argument\":{\"name\":\"resourceId\",\"value\":\"1\"}}}" \
	"$node" "$npm/@modelcontextprotocol/server-everything/dist/index.js"
server memory "{\"MEMORY_FILE_PATH\":\"$work/memory.jsonl\"}" "$(tool read_graph '{}'),$(tool search_nodes '{"query":"Ada"}')" \
	"$node" "$npm/@modelcontextprotocol/server-memory/dist/index.js"
server thinking '{}' "$(tool sequentialthinking '{"thought":"t","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}')" \
	"$node" "$npm/@modelcontextprotocol/server-sequential-thinking/dist/index.js"
if command -v rg >/dev/null; then
	server ripgrep '{}' "$(tool search "{\"pattern\":\"needle\",\"path\":\"$project\"}")" "$node" "$npm/mcp-ripgrep/dist/index.js"
else
	skip "ripgrep: rg is not installed"
fi
if ! command -v git >/dev/null; then
	skip "git: git is not installed"
elif go_built git-mcp-go github.com/geropl/git-mcp-go v1.3.1; then
	(cd "$project" && git init -q . && git add . && git -c user.name=Ada -c user.email=ada@example.org commit -qm 'a "first" commit')
	server git '{}' "$(tool git_log "{\"repo_path\":\"$project\"}"),$(tool git_status "{\"repo_path\":\"$project\"}")" \
		"$server" serve -r "$project"
fi
if go_built gopls golang.org/x/tools/gopls v0.21.1; then
	server gopls '{}' "$(tool go_workspace '{}'),$(tool go_search '{"query":"answer"}')" "$server" mcp
fi
if go_built github-mcp-server github.com/github/github-mcp-server v1.0.0 /cmd/github-mcp-server; then
	server github '{"GITHUB_PERSONAL_ACCESS_TOKEN":"none"}' '' "$server" stdio --read-only
fi
printf '{"roots":["file://%s"],"servers":[\n%s\n]}\n' "$project" "$servers" >"$work/servers.json"

echo "# servers: direct, behind the proxy alone, and joined"
mkdir "$work/proxy"
if timeout 300 go run -C tools ./compare -bin "$bin" -config "$work/servers.json" -keep "$work/proxy" 2>"$work/err"; then
	ok "all servers answer the same through the proxy"
else
	fail "compare"
	cat "$work/err"
fi
[ -s "$work/proxy/config.toml" ] || die "no configuration to go on with"

echo "# clients: one proxy for all servers, on stdio and HTTP"
own_home
serve_http "$work/proxy/config.toml"
TOKEN=$(cat "$work/proxy/state/http-token")
export TOKEN

set -- "$bin" serve --config "$work/proxy/config.toml"
inspect() { # WHAT PATTERN ERA OPTIONS…: on both transports
	what=$1 wanted=$2 spoken=$3
	shift 3
	check "inspector, stdio, $spoken: $what" "$wanted" "$node" "$npm/.bin/mcp-inspector" --cli -q --format json \
		--protocol-era "$spoken" --transport stdio "$@" -- "$bin" serve --config "$work/proxy/config.toml"
	check "inspector, http, $spoken: $what" "$wanted" "$node" "$npm/.bin/mcp-inspector" --cli -q --format json \
		--protocol-era "$spoken" --transport http --server-url "$url" --header "Authorization: Bearer $TOKEN" "$@"
}
for era in legacy modern; do
	inspect tools/list '"everything__echo".*"filesystem__read_text_file".*"memory__read_graph".*"thinking__sequentialthinking"' "$era" --method tools/list
	inspect tools/call 'Echo: hello' "$era" --method tools/call --tool-name everything__echo --tool-arg message=hello
	inspect "tools/call of another server" 'needle' "$era" --method tools/call --tool-name filesystem__read_text_file --tool-arg "path=$project/hay.txt"
	inspect prompts/list 'everything__args-prompt' "$era" --method prompts/list
	inspect resources/read 'Everything Server' "$era" --method resources/read --uri demo://resource/static/document/features.md
done
if timeout 20 "$node" "$npm/.bin/mcp-inspector" --cli -q --format json --transport http --server-url "$url" --method tools/list >"$work/out" 2>&1 </dev/null; then
	fail "inspector, http without the token: got tools, want a refusal"
else
	ok "inspector, http without the token: refused"
fi

checks "$node" "$cache/sdk-v1.mjs" "sdk v1, stdio" everything__ stdio "$@"
checks "$node" "$cache/sdk-v1.mjs" "sdk v1, http" everything__ http "$url"
checks "$node" "$cache/sdk-v1.mjs" "sdk v1, http, one upstream" "" http "$url/everything"
checks "$node" "$cache/sdk-v1.mjs" "sdk v1, sse" everything__ sse "${url%/mcp}/sse"
checks "$node" "$cache/sdk-v2.mjs" "sdk v2, stdio" everything__ 2026-07-28 stdio "$@"
checks "$node" "$cache/sdk-v2.mjs" "sdk v2, http" everything__ auto http "$url"
checks "$node" "$cache/sdk-v2.mjs" "sdk v2, http, handshake" everything__ legacy http "$url"

sed 's/^\[server\]$/&\ntools = "search"/' "$work/proxy/config.toml" >"$work/searched.toml"
grep -q '^tools = "search"' "$work/searched.toml" || printf '[server]\ntools = "search"\n' >>"$work/searched.toml"
checks "$node" "$cache/searched.mjs" "$project" "$work/proxy/config.toml" "$work/searched.toml" "$bin"

if [ "${CLAUDE:-}" = 1 ]; then
	claude_code
	cd "$project"
	check "claude mcp add-json, stdio" Added "$claude" mcp add-json pipes \
		"{\"type\":\"stdio\",\"command\":\"$bin\",\"args\":[\"serve\",\"--config\",\"$work/proxy/config.toml\"]}"
	check "claude mcp add-json, http" Added "$claude" mcp add-json web \
		"{\"type\":\"http\",\"url\":\"$url\",\"headers\":{\"Authorization\":\"Bearer $TOKEN\"}}"
	check "claude mcp list: stdio connected" '^pipes: .*✔ Connected' "$claude" mcp list
	check "claude mcp list: http connected" '^web: .*✔ Connected' "$claude" mcp list
	cd "$root"
else
	skip "Claude Code (356 MB): CLAUDE=1 runs it"
fi

# Nothing but the HTTP proxy itself may be left of all this, and it goes at a
# signal with all its servers.
kill "$proxy"
code=0
wait "$proxy" || code=$?
running=
if [ "$code" = 0 ]; then ok "the HTTP proxy ends at a signal"; else fail "the HTTP proxy ends at a signal: got exit code $code, want 0"; fi
nothing_left
total
