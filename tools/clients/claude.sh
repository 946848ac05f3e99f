#!/bin/sh
# A real Claude Code in front of mcpschedd, offline: its model is a script on
# loopback, and the server behind the proxy heeds neither the end of its input nor
# SIGTERM. It ends the proxy as it ends every server: SIGINT, SIGTERM 100 ms later,
# SIGKILL 490 ms after the first. Each end must be clean: no process is left, and what
# was learned and recorded is on disk.
#
#   sh tools/clients/claude.sh            needs node 20 and npm (356 MB); make builds bin/mcpschedd
#   ENDS=3 sh tools/clients/claude.sh     so many ends on each transport, of which every other with a call in flight; default 20
#
# Then it runs a plan that may write: in a terminal, where the confirmation is accepted and
# declined by keys, and headless, where nothing can be asked (needs script, of util-linux).
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
bin=${BIN:-$root/bin/mcpschedd}
ends=${ENDS:-20}
version=2.1.328
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcpschedd-clients/claude
for need in node npm script "$bin"; do
	command -v "$need" >/dev/null || { echo "claude.sh: error: $need: not found" >&2; exit 1; }
done
claude=$cache/node_modules/.bin/claude
if ! "$claude" --version 2>/dev/null | grep -q "^$version "; then
	mkdir -p "$cache"
	echo '{"private":true}' >"$cache/package.json"
	(cd "$cache" && npm install --no-audit --no-fund --loglevel=error --no-update-notifier "@anthropic-ai/claude-code@$version")
fi

work=$(mktemp -d)
running=
finish() {
	for pid in $running; do kill "$pid" 2>/dev/null || :; done
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

passed=0 failed=0
ok() { passed=$((passed + 1)); printf 'ok   %s\n' "$1"; }
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$1"; }

# until_written FILE: something stands in it, within a minute.
until_written() {
	for _ in $(seq 600); do
		[ ! -s "$1" ] || return 0
		sleep 0.1
	done
	echo "claude.sh: error: nothing in $1" >&2
	exit 1
}

HOME=$work
export HOME
mark=$work # all that comes of this script has it in its environment
mkdir "$work/project"
cat >"$work/config.toml" <<X
[server]
state_dir = "$work/state"
startup_wait = "30s" # each run begins without a last-known copy, on whatever machine
[upstreams.stubborn]
command = "$(command -v node)"
args = ["$root/tools/clients/stubborn.mjs"]
env = { HUNG = "$work/hung" }
[tools."stubborn/*"]
side_effect_class = "read_only"
X

# model NAME TOOL…: a script for the model, whose address is in $work/NAME.
model() {
	name=$1
	shift
	node "$root/tools/clients/claude-model.mjs" "$@" >"$work/$name" &
	running="$running $!"
	until_written "$work/$name"
}
model calls mcp__prox__echo
model hangs mcp__prox__echo mcp__prox__hang

# client MODEL: Claude Code with that model, in the background; its pid is $client.
client() {
	(
		cd "$work/project"
		ANTHROPIC_BASE_URL=$(cat "$work/$1") ANTHROPIC_API_KEY=none IS_SANDBOX=1 ENABLE_TOOL_SEARCH=false \
			CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 exec "$claude" -p go --mcp-config "$work/mcp.json" --strict-mcp-config \
			--allowedTools mcp__prox --output-format stream-json --verbose >"$work/out" 2>"$work/err" </dev/null
	) &
	client=$!
}

# left: the names of processes that came of this script, its models aside.
left() {
	for file in $(HOME=/ grep -lsaF "HOME=$mark" /proc/[0-9]*/environ || :); do
		pid=${file#/proc/} pid=${pid%/environ}
		case " $running $$ " in *" $pid "*) continue ;; esac
		grep -v '^sh$' "/proc/$pid/comm" 2>/dev/null || :
	done
}

# kept: what a clean end leaves on disk. The last line of the record is written at the
# very end, and not by a process that was killed.
kept() {
	last=$(tail -qn 1 "$work"/state/events/*.jsonl)
	case $last in '{"kind":"end"'*) ;; *) echo "the record ends with $last"; return 1 ;; esac
	grep -qs '"tool":"echo"' "$work"/state/events/*.jsonl || { echo "the call is not in the record"; return 1; }
	grep -qs '"name":"echo"' "$work"/state/learned/* || { echo "nothing was learned of the call"; return 1; }
	[ "$1" = calls ] || grep -qs '"tool":"hang"' "$work"/state/events/*.jsonl || { echo "the call in flight is not in the record"; return 1; }
}

# converse MODEL: one run of the client, in which it ends by itself or, with a call in
# flight, by SIGINT.
converse() {
	rm -f "$work/hung"
	client "$1"
	if [ "$1" = hangs ]; then
		until_written "$work/hung"
		kill -INT "$client"
	fi
	wait "$client" || :
	grep -q 'echo: hello' "$work/out" || { echo "no answer"; tail -n 5 "$work/out" "$work/err"; return 1; }
}

# connected: Claude Code's own check.
connected() {
	(cd "$work/project" && timeout 90 "$claude" mcp list >"$work/out" 2>"$work/err" </dev/null) || :
	if grep -q '^prox: .*✔ Connected' "$work/out"; then ok "claude mcp list, $1: connected"; else fail "claude mcp list, $1"; cat "$work/out" "$work/err"; fi
}

clean=0 n=0
# ended MODEL WHY: counts one end; WHY is empty if it was clean so far.
ended() {
	why=$2
	for _ in $(seq 10); do # a process that was killed takes a moment to go
		rest=$(left)
		[ -n "$rest" ] || break
		sleep 0.1
	done
	[ -z "$rest" ] || why="$why; left: $(echo $rest)"
	[ -n "$why" ] || why=$(kept "$1") || :
	if [ -z "$why" ]; then clean=$((clean + 1)); else echo "     end $n ($1): $why"; fi
}

counted() {
	if [ "$clean" = "$ends" ]; then ok "$1: $clean of $ends ends clean"; else fail "$1: $clean of $ends ends clean"; fi
	clean=0
}

printf '{"mcpServers":{"prox":{"type":"stdio","command":"%s","args":["serve","--config","%s"]}}}\n' "$bin" "$work/config.toml" >"$work/mcp.json"
(cd "$work/project" && "$claude" mcp add-json prox "{\"type\":\"stdio\",\"command\":\"$bin\",\"args\":[\"serve\",\"--config\",\"$work/config.toml\"]}" >/dev/null)
connected stdio
for n in $(seq "$ends"); do
	rm -rf "$work/state"
	kind=calls
	[ $((n % 2)) = 1 ] || kind=hangs
	why=$(converse $kind) || why="${why:-the client got nowhere}"
	ended $kind "$why"
done
counted stdio

for n in $(seq "$ends"); do
	rm -rf "$work/state"
	: >"$work/log"
	kind=calls
	[ $((n % 2)) = 1 ] || kind=hangs
	"$bin" serve --config "$work/config.toml" --http 127.0.0.1:0 2>"$work/log" &
	proxy=$!
	running="$running $proxy"
	url=
	for _ in $(seq 300); do
		url=$(sed -n 's/.*msg="serving HTTP" url=\([^ ]*\).*/\1/p' "$work/log")
		[ -z "$url" ] || break
		sleep 0.1
	done
	entry="{\"type\":\"http\",\"url\":\"$url\",\"headers\":{\"Authorization\":\"Bearer $(cat "$work/state/http-token")\"}}"
	printf '{"mcpServers":{"prox":%s}}\n' "$entry" >"$work/mcp.json"
	if [ "$n" = 1 ]; then
		(cd "$work/project" && "$claude" mcp remove prox >/dev/null && "$claude" mcp add-json prox "$entry" >/dev/null)
		connected http
	fi
	why=$(converse $kind) || why="${why:-the client got nowhere}"
	# As the client ends a server on stdio.
	kill -INT "$proxy"
	sleep 0.1
	kill -TERM "$proxy" 2>/dev/null || :
	sleep 0.39
	! kill -KILL "$proxy" 2>/dev/null || why="$why; it had to be killed"
	wait "$proxy" || why="$why; exit code $?"
	ended $kind "$why"
done
counted http

# A plan of two calls of a tool of which nothing says that it only reads.
sed '/^\[tools/,$d' "$work/config.toml" >"$work/plan.toml"
printf '[plan]\nenabled = true\n' >>"$work/plan.toml"
printf '{"mcpServers":{"prox":{"type":"stdio","command":"%s","args":["serve","--config","%s"]}}}\n' "$bin" "$work/plan.toml" >"$work/mcp.json"
model plans 'mcp__prox__execute_tool_plan={"steps":[{"id":"a","tool":"echo","arguments":{"text":"one"}},{"id":"b","tool":"echo","arguments":{"text":{"$tpl":"${a#} two"}}}]}'
# What a first start in a terminal would ask.
printf '{"hasCompletedOnboarding":true,"customApiKeyResponses":{"approved":["none"]},"projects":{"%s":{"hasTrustDialogAccepted":true}}}\n' "$work/project" >"$work/.claude.json"

# until_shown TEXT PATH: the text stands in the file or below the folder, within a minute.
until_shown() {
	for _ in $(seq 600); do
		! grep -raqsF "$1" "$2" || return 0
		sleep 0.1
	done
	echo "claude.sh: error: not in $2: $1" >&2
	exit 1
}

# confirm KEY…: one run in a terminal, in which the question is answered by keys.
confirm() {
	rm -rf "$work/state" "$work/.claude/projects" "$work/screen"
	mkfifo "$work/keys"
	(
		cd "$work/project"
		export ANTHROPIC_BASE_URL="$(cat "$work/plans")" ANTHROPIC_API_KEY=none IS_SANDBOX=1 ENABLE_TOOL_SEARCH=false CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 TERM=xterm
		exec script -qfec "stty cols 120 rows 40; '$claude' --mcp-config '$work/mcp.json' --strict-mcp-config --allowedTools mcp__prox" "$work/screen" <"$work/keys" >"$work/out" 2>&1
	) &
	client=$!
	running="$running $client"
	exec 3>"$work/keys"
	until_shown 'shift+tab' "$work/screen"
	printf 'go\r' >&3
	until_shown Decline "$work/screen"
	for key in "$@"; do
		sleep 1 # the screen takes keys a moment after it shows what they are for
		printf '%b' "$key" >&3
	done
	until_shown '"tool_result"' "$work/.claude/projects"
	for _ in 1 2 3; do printf '\003' >&3; sleep 0.3; done
	exec 3>&-
	wait "$client" || :
	rm "$work/keys"
}

# told PATTERN CALLS WHAT: what the model was told of the plan, and the calls that were made.
told() {
	answer=$(grep -rahF '"tool_result"' "$work/.claude/projects" | head -n 1)
	made=$(cat "$work"/state/events/*.jsonl | grep -c '"tool":"echo"' || :)
	if echo "$answer" | grep -q "$1" && [ "$made" = "$2" ]; then ok "a plan that may write, $3: $2 calls"; else fail "a plan, $3: $made calls; $answer"; fi
}

confirm '\r'
told 'echo: echo: one two' 2 'accepted in the terminal'
confirm '\033[C' '\r'
told 'the user declined it' 0 'declined in the terminal'
rm -rf "$work/state" "$work/.claude/projects"
client plans
wait "$client" || :
told 'make these calls by themselves' 0 headless

printf '%s ok, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
