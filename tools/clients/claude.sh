#!/bin/sh
# A real Claude Code in front of mcpschedd, offline: its model is a script on
# loopback, and the server behind the proxy heeds neither the end of its input nor
# SIGTERM. It ends the proxy as it ends every server: SIGINT, SIGTERM 100 ms later,
# SIGKILL 490 ms after the first. Each end must be clean: no process is left, and what
# was learned and recorded is on disk. The same through mcpschedd connect, whose daemon goes
# after a second without clients, and where Claude Code itself is killed, too.
#
#   sh tools/clients/claude.sh            needs node 20 and npm (356 MB); make builds bin/mcpschedd
#   ENDS=3 sh tools/clients/claude.sh     so many ends on each transport, of which every other with a call in flight; default 20
#
# Then it runs a plan that may write: in a terminal, where the confirmation is accepted and
# declined by keys, and headless, where nothing can be asked (needs script, of util-linux).
# Last, through connect: calls at once, one that is cancelled, a list that changes and a
# question of the server; then its hooks: a file is read ahead in a turn that they report, and
# what a command of Claude Code's own has written is read anew.
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh && need node npm script "$bin"
ends=${ENDS:-20}
claude_code

own_home
mkdir "$work/project"
cat >"$work/config.toml" <<X
[server]
state_dir = "$work/state"
startup_wait = "30s" # each run begins without a last-known copy, on whatever machine
[upstreams.stubborn]
command = "$(command -v node)"
args = ["$root/tools/clients/stubborn.mjs"]
env = { HUNG = "$work/hung" }
[daemon]
idle = "1s"
[tools."stubborn/*"]
side_effect_class = "read_only"
X

model calls mcp__prox__echo
model hangs mcp__prox__echo mcp__prox__hang

# client MODEL: Claude Code with that model, in the background; its pid is $client.
client() {
	(
		cd "$work/project"
		with_model "$1" "$claude" -p go --mcp-config "$work/mcp.json" --strict-mcp-config \
			--allowedTools "mcp__prox${ALSO:-}" --output-format stream-json --verbose >"$work/out" 2>"$work/err" </dev/null
	) &
	client=$!
}

# kept: what a clean end leaves on disk. The last line of the record is written at the
# very end, and not by a process that was killed.
kept() {
	last=$(tail -qn 1 "$work"/state/events/*.jsonl)
	case $last in '{"kind":"end"'*) ;; *) echo "the record ends with $last"; return 1 ;; esac
	grep -qs '"tool":"echo"' "$work"/state/events/*.jsonl || { echo "the call is not in the record"; return 1; }
	grep -qsaF echo "$work"/state/learned/* || { echo "nothing was learned of the call"; return 1; }
	[ "$1" = calls ] || grep -qs '"tool":"hang"' "$work"/state/events/*.jsonl || { echo "the call in flight is not in the record"; return 1; }
}

# converse MODEL SIGNAL: one run of the client, in which it ends by itself or, with a call in
# flight, by the signal.
converse() {
	rm -f "$work/hung"
	client "$1"
	if [ "$1" = hangs ]; then
		within 600 test -s "$work/hung" || die "nothing in $work/hung"
		kill "-$2" "$client"
	fi
	wait "$client" || :
	grep -q 'echo: hello' "$work/out" || { echo "no answer"; tail -n 5 "$work/out" "$work/err"; return 1; }
}

# connected: Claude Code's own check.
connected() {
	(cd "$work/project" && timeout 90 "$claude" mcp list >"$work/out" 2>"$work/err" </dev/null) || :
	if grep -q '^prox: .*✔ Connected' "$work/out"; then ok "claude mcp list, $1: connected"; else fail "claude mcp list, $1"; cat "$work/out" "$work/err"; fi
}

none_left() { [ -z "$(left)" ]; }
clean=0 n=0
# ended MODEL WHY: counts one end; WHY is empty if it was clean so far.
ended() {
	why=$2
	# A process that was killed takes a moment to go, and a daemon a second.
	within 100 none_left || why="$why; left: $(ps -o args= -p "$(left | tr '\n' ,)0" || :)"
	[ -n "$why" ] || why=$(kept "$1") || :
	if [ -z "$why" ]; then clean=$((clean + 1)); else echo "     end $n ($1): $why"; fi
}

counted() {
	if [ "$clean" = "$ends" ]; then ok "$1: $clean of $ends ends clean"; else fail "$1: $clean of $ends ends clean"; fi
	clean=0
}

# configure PROGRAM COMMAND CONFIG: what the client starts.
configure() {
	entry="{\"type\":\"stdio\",\"command\":\"$1\",\"args\":[\"$2\",\"--config\",\"$3\"]}"
	printf '{"mcpServers":{"prox":%s}}\n' "$entry" >"$work/mcp.json"
}

# stdio WORD SIGNAL…: ends over what is configured, with a call in flight by the signals in turn.
stdio() {
	word=$1
	shift
	(cd "$work/project" && { "$claude" mcp remove prox >/dev/null 2>&1 || :; } && "$claude" mcp add-json prox "$entry" >/dev/null)
	connected "$word"
	for n in $(seq "$ends"); do
		rm -rf "$work/state"
		kind=calls signal=$1
		if [ $((n % 2)) = 0 ]; then
			kind=hangs
			shift
			set -- "$@" "$signal"
		fi
		why=$(converse $kind "$signal") || why="${why:-the client got nowhere}"
		ended $kind "$why"
	done
	counted "$word"
}

configure "$bin" serve "$work/config.toml"
stdio stdio INT
configure "$bin-small" connect "$work/config.toml"
stdio connect INT KILL

for n in $(seq "$ends"); do
	rm -rf "$work/state"
	kind=calls
	[ $((n % 2)) = 1 ] || kind=hangs
	serve_http "$work/config.toml"
	entry="{\"type\":\"http\",\"url\":\"$url\",\"headers\":{\"Authorization\":\"Bearer $(cat "$work/state/http-token")\"}}"
	printf '{"mcpServers":{"prox":%s}}\n' "$entry" >"$work/mcp.json"
	if [ "$n" = 1 ]; then
		(cd "$work/project" && "$claude" mcp remove prox >/dev/null && "$claude" mcp add-json prox "$entry" >/dev/null)
		connected http
	fi
	why=$(converse $kind INT) || why="${why:-the client got nowhere}"
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
configure "$bin" serve "$work/plan.toml"
model plans 'mcp__prox__execute_tool_plan={"steps":[{"id":"a","tool":"echo","arguments":{"text":"one"}},{"id":"b","tool":"echo","arguments":{"text":{"$tpl":"${a#} two"}}}]}'
# What a first start in a terminal would ask.
printf '{"hasCompletedOnboarding":true,"customApiKeyResponses":{"approved":["none"]},"projects":{"%s":{"hasTrustDialogAccepted":true}}}\n' "$work/project" >"$work/.claude.json"

# until_shown TEXT PATH: the text stands in the file or below the folder, within a minute.
until_shown() { within 600 grep -raqsF "$1" "$2" || die "not in $2: $1"; }

# confirm MODEL KEY…: one run in a terminal, in which the question is answered by keys.
confirm() {
	asked=$1
	shift
	rm -rf "$work/state" "$work/.claude/projects" "$work/screen"
	mkfifo "$work/keys"
	(
		cd "$work/project"
		export TERM=xterm
		with_model "$asked" script -qfec "stty cols 120 rows 40; '$claude' --mcp-config '$work/mcp.json' --strict-mcp-config --allowedTools mcp__prox" "$work/screen" <"$work/keys" >"$work/out" 2>&1
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
	until_shown '"text":"done"' "$work/.claude/projects"
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

confirm plans '\r'
told 'echo: echo: one two' 2 'accepted in the terminal'
confirm plans '\033[C' '\r'
told 'the user declined it' 0 'declined in the terminal'
rm -rf "$work/state" "$work/.claude/projects"
client plans
wait "$client" || :
told 'make these calls by themselves' 0 headless

# What passes between the client and the server besides calls, through connect.
configure "$bin-small" connect "$work/config.toml"
THINK=1000 model talks mcp__prox__echo 'mcp__prox__together={"text":"one"}' '+mcp__prox__together={"text":"two"}' mcp__prox__hang mcp__prox__grow mcp__prox__late mcp__prox__ask
export MCP_TOOL_TIMEOUT=10000
confirm talks '\r'
unset MCP_TOOL_TIMEOUT
# heard PATTERN WHAT: the model was told so.
heard() {
	if grep -rahF '"tool_result"' "$work/.claude/projects" | grep -q "$1"; then ok "connect: $2"; else fail "connect: $2"; fi
}
heard 'together: one' 'calls at once, the first'
heard 'together: two' 'calls at once, the second'
heard 'timed out' 'a call without an answer'
if grep -qs cancelled "$work/hung"; then ok 'connect: the server is told of that'; else fail 'connect: the server is not told of that'; fi
heard 'late: hello' 'a tool that appears'
heard 'asked: accept' 'a question of the server'
n=talk clean=0
ended talks ''
[ "$clean" = 1 ] && ok 'connect: nothing is left, and all is kept' || fail 'connect: what is left'

# A file that will be read is read ahead, as the hooks say that nothing changes it unseen.
cat "$work/config.toml" - >"$work/hooks.toml" <<X
[dedup]
settle = "0s"
[enrichment]
waste_ms = 0.001
[tools."stubborn/read"]
speculate = true
cost_model = { latency_ms_p50 = 1000 }
[[tools."stubborn/find".follow_up]]
tool = "read"
probability = 0.99
args = { path = "\$args.path" }
X
# reported EVENT…: hooks report these events while two files are read: one that nothing writes, and
# one that a command writes after it was read ahead. The second answer is in $second, how both came
# about in $how, and what was chosen to be read ahead in $chosen.
reported() {
	hooks=
	for event in "$@"; do
		hooks="$hooks${hooks:+,}\"$event\":[{\"matcher\":\"^(?!mcp__prox__)\",\"hooks\":[{\"type\":\"command\",\"command\":\"'$bin-small' hook --config '$work/hooks.toml'\"}]}]"
	done
	rm -rf "$work/state" "$work/.claude/projects"
	"$bin" daemon --config "$work/hooks.toml" >"$work/ready" & # else the session may begin before it does
	daemon=$!
	running="$running $daemon"
	within 600 test -s "$work/ready" || die "no daemon"
	mkdir -p "$work/.claude"
	printf '{"hooks":{%s}}\n' "$hooks" >"$work/.claude/settings.json"
	printf one >"$work/project/a"
	printf one >"$work/project/b"
	ALSO=,Bash
	client edits
	wait "$client" || :
	ALSO=
	kill "$daemon" 2>/dev/null || : # it goes by itself a second after its last client
	wait "$daemon" || :
	second=$(grep -aho 'read: [a-z]*' "$work/out" | tail -n 1)
	how=$(cat "$work"/state/events/*.jsonl | grep '"kind":"call"' | grep '"tool":"read"' | grep -o '"disposition":"[a-z]*"' | tr '\n' ' ')
	chosen=$(grep -h '"kind":"choice"' "$work"/state/events/*.jsonl || :)
}
configure "$bin-small" connect "$work/hooks.toml"
a="{\"path\":\"$work/project/a\"}" b="{\"path\":\"$work/project/b\"}"
THINK=1500 model edits "mcp__prox__find=$a" "mcp__prox__read=$a" "mcp__prox__find=$b" "Bash={\"command\":\"printf two >'$work/project/b'\"}" "mcp__prox__read=$b"
reported SessionStart UserPromptSubmit PreToolUse PostToolUse Stop SessionEnd
case $how in '"disposition":"hit" "disposition":"fetched" ') ok 'hooks: a file is read ahead' ;; *) fail "hooks: $how of $chosen" ;; esac
[ "$second" = 'read: two' ] && ok 'hooks: what a command has written is read anew' || fail "hooks: got $second after a command wrote two"
rm "$work/.claude/settings.json"

total
