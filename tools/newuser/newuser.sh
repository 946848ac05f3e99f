#!/bin/sh
# A new user's first day, on an empty home: six real servers that Claude Code is
# configured with are imported, a real Claude Code with a scripted model and an SDK client
# work through mcpschedd connect and its daemon with no setting but --trust for one server
# and the hooks, and --undo gives everything back.
#
#   sh tools/newuser/newuser.sh    needs node 20, npm and git (Postgres where it is installed); make builds bin/mcpschedd
#
# Packages go into the cache folders of claude.sh and clients.sh, which run first. The
# model is a script on loopback; the ticket server takes 400 ms for each call and never
# connects to the host that its settings name.
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh
claude=$cache/claude/node_modules/.bin/claude
need node npm git "$bin" "$claude" "$cache/node_modules/@modelcontextprotocol/sdk/package.json"
daemons() { pgrep -f "daemon --config $work/" || :; }
trap 'running="$running $(daemons)"; finish' EXIT # the daemon would stay for ten minutes

npm_config_cache=${npm_config_cache:-$(npm config get cache)} # the home is empty, the packages need not be fetched again
export npm_config_cache
own_home
unset XDG_CONFIG_HOME XDG_STATE_HOME MCPSCHEDD_CONFIG || :
mkdir "$work/project" "$work/elsewhere"
(
	cd "$work/project"
	for n in 1 2 3 4 5; do echo "note $n" >"note$n.txt"; done
	git init -q .
	git config user.name Ada
	git config user.email ada@example.org
	git add .
	git commit -qm 'a first thing'
)

# What the user has: five servers in every folder, one in this project alone, and a rule.
add() { (cd "$work/project" && "$claude" mcp add "$@" >/dev/null); }
add -s user filesystem -- npx -y @modelcontextprotocol/server-filesystem "$work/project"
add -s user memory --env "MEMORY_FILE_PATH=$work/memory.jsonl" -- npx -y @modelcontextprotocol/server-memory
add -s user everything -- npx -y @modelcontextprotocol/server-everything
add -s user git -- npx -y @cyanheads/git-mcp-server
add -s user tickets --env TICKETS_URL=https://tickets.example.com/api --env TICKETS_TOKEN=tk-0123456789abcdef -- node "$root/tools/newuser/tickets.mjs"
add -s local scratch -- node "$root/tools/newuser/tickets.mjs"
mkdir -p "$work/.claude"
echo '{"permissions":{"deny":["mcp__filesystem__write_file"],"allow":["mcp__tickets__get_ticket"]}}' >"$work/.claude/settings.json"

if postgres; then
	add -s user postgres -- npx -y @modelcontextprotocol/server-postgres "postgresql://postgres:pw-9f8e7d6c@127.0.0.1:$port/postgres"
fi

# day FIRST SESSIONS SERVER PREFIX: an SDK client's sessions, in milliseconds of waiting for tickets.
cp "$root/tools/newuser/day.mjs" "$cache/day.mjs"
day() { (cd "$work/project" && timeout 300 node "$cache/day.mjs" "$work/.claude.json" "$3" "$4" "$1" "$2"); }
direct=$(day 90 1 tickets '')
echo "# seven reads of tickets without mcpschedd: $direct ms"

cp "$work/.claude.json" "$work/before.json"
cp "$work/.claude/settings.json" "$work/before-settings.json"
echo '# mcpschedd import claude --write --hooks --trust tickets'
(cd "$work/project" && "$bin" import claude --write --hooks --trust tickets) || { fail import; exit 1; }
verify 'the client connects' grep -q '"command": ".*/mcpschedd-small", "args": \["connect"\]' "$work/.claude.json"
verify 'its hooks report its edits' grep -q "mcpschedd-small' 'hook'" "$work/.claude/settings.json"

verify 'no secret of the client stands in the configuration' sh -c "! grep -rn 'tk-0123456789abcdef\|pw-9f8e7d6c' '$work'/.config/mcpschedd/*.toml"
echo '# mcpschedd import --undo'
(cd "$work/project" && "$bin" import claude --undo)
verify 'undo: the client file is byte for byte what it was' cmp "$work/.claude.json" "$work/before.json"
verify 'undo: its settings too' cmp "$work/.claude/settings.json" "$work/before-settings.json"
(cd "$work/project" && "$bin" import claude --write --hooks --trust tickets >/dev/null 2>&1) || fail 'a second import'
echo '# mcpschedd check --connect'
(cd "$work/project" && "$bin" check --connect) || :

# converse FOLDER OUT STEP…: Claude Code, whose model takes those steps.
converse() {
	folder=$1 out=$2
	shift 2
	THINK=600 model model "$@"
	(
		cd "$folder"
		with_model model timeout 180 "$claude" -p go \
			--allowedTools mcp__mcpschedd --output-format stream-json --verbose >"$out" 2>"$out.err" </dev/null
	) || { fail "claude in $folder"; tail -n 5 "$out" "$out.err"; }
	kill "$model" 2>/dev/null || :
}

(cd "$work/project" && timeout 90 "$claude" mcp list) >"$work/list" 2>&1 || :
verify 'claude mcp list: connected' grep '^mcpschedd: .*✔ Connected' "$work/list"

p=mcp__mcpschedd__
for n in 1 2 3 4 5; do
	set -- "${p}tickets__list_tickets={\"sprint\":\"A$n\"}"
	for t in 1 2 3; do
		set -- "$@" "${p}tickets__get_ticket={\"id\":\"A$n-$t\"}" "${p}tickets__list_comments={\"id\":\"A$n-$t\"}"
	done
	set -- "$@" "${p}filesystem__read_text_file={\"path\":\"$work/project/note$n.txt\"}" "${p}memory__read_graph={}" \
		"${p}git__git_status={\"path\":\"$work/project\"}" "${p}everything__echo={\"message\":\"hello\"}"
	if [ -n "$database" ]; then set -- "$@" "${p}postgres__query={\"sql\":\"SELECT $n AS n\"}"; else set -- "$@" "${p}memory__read_graph={}"; fi
	converse "$work/project" "$work/day$n" "$@"
	calls=$(grep -o '"type":"tool_result"' "$work/day$n" | wc -l)
	wrong=$(grep -c '"is_error":true' "$work/day$n" || :)
	if [ "$calls" = 12 ] && [ "$wrong" = 0 ]; then ok "claude, session $n: 12 calls answered"; else
		fail "claude, session $n: $calls calls answered, $wrong wrong"
		grep '"is_error":true' "$work/day$n" | head -n 3 | cut -c1-600
	fi
done

converse "$work/project" "$work/denied" "${p}filesystem__write_file={\"path\":\"$work/project/new.txt\",\"content\":\"x\"}"
verify 'a deny rule still denies' test ! -e "$work/project/new.txt"
converse "$work/elsewhere" "$work/there" "${p}tickets__get_ticket={\"id\":\"A1-1\"}"
verify 'from another folder the servers are there' grep -q 'Ticket A1-1' "$work/there"
verify "one project's server is in its folder" grep -q "${p}scratch__" "$work/day1"
verify "one project's server is not in another folder" sh -c "! grep -q '${p}scratch__' '$work/there'"

sessions=$(day 1 6 mcpschedd tickets__)
echo "# seven reads of tickets in each session of an SDK client: $(echo $sessions) ms"
for waited in $(echo "$sessions" | tail -n 3); do
	if [ $((waited * 10)) -le $((direct * 6)) ]; then ok "at least 40 % less waiting: $waited of $direct ms"; else fail "less than 40 % less waiting: $waited of $direct ms"; fi
done
echo '# mcpschedd stats'
(cd "$work/project" && "$bin" stats)
verify 'stats names one process, the daemon' sh -c "[ \"\$('$bin' stats | grep -c '^process ')\" = 1 ] && '$bin' stats | grep -q '^process .*, daemon in '"
verify 'stats says what was stored and prefetched' sh -c "'$bin' stats --json | node -e 'const t = JSON.parse(require(\"fs\").readFileSync(0)).totals; process.exit(t.served_stored > 0 && t.prefetch.used > 0 ? 0 : 1)'"

echo '# mcpschedd import --undo'
(cd "$work/project" && "$bin" import claude --undo)
verify 'undo: the client has its servers again, with their secrets' node -e '
	const [was, is] = process.argv.slice(1).map((f) => JSON.parse(require("fs").readFileSync(f)))
	require("assert").deepStrictEqual(is.mcpServers, was.mcpServers)
	for (const p in was.projects) require("assert").deepStrictEqual(is.projects[p].mcpServers, was.projects[p].mcpServers)
' "$work/before.json" "$work/.claude.json"
verify 'undo: its settings are byte for byte what they were' cmp "$work/.claude/settings.json" "$work/before-settings.json"
(cd "$work/project" && timeout 120 "$claude" mcp list) >"$work/list" 2>&1 || :
verify 'undo: claude connects to them' grep '^tickets: .*✔ Connected' "$work/list"

total
