# What the scripts of tools/ share. A script goes to the top of the checkout and reads this file:
#
#   cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh && need go node "$bin"
#
# It has a folder of its own in $work, which is removed at the end, with all that was started and
# noted in $running. BIN is the mcpschedd to use, bin/mcpschedd where it is not set.
set -eu
script=$(basename "$0")
root=$PWD
bin=${BIN:-$root/bin/mcpschedd}
caches=${XDG_CACHE_HOME:-$HOME/.cache}
cache=$caches/mcpschedd-clients
work=$(mktemp -d)
chmod 755 "$work" # Postgres is another user
running= database=
finish() {
	for pid in $running; do kill "$pid" 2>/dev/null || :; done
	if [ -n "$database" ]; then
		kill -INT "$database" 2>/dev/null || :
		wait "$database" 2>/dev/null || :
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

die() {
	echo "$script: error: $1" >&2
	exit 1
}

# need NAME…: commands, or files.
need() {
	for need; do [ -e "$need" ] || command -v "$need" >/dev/null || die "$need: not found"; done
}

passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); printf 'ok   %s\n' "$1"; }
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$1"; }
skip() { skipped=$((skipped + 1)); printf 'skip %s\n' "$1"; }
# verify LABEL COMMAND…: the command ends well.
verify() {
	label=$1
	shift
	if "$@" >"$work/verify" 2>&1; then ok "$label"; else fail "$label"; cat "$work/verify"; fi
}
# total: the last line; it fails where a check has.
total() {
	printf '%s ok, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
	[ "$failed" = 0 ]
}

# within TENTHS COMMAND…: the command ends well within so many tenths of a second.
within() {
	tenths=$1
	shift
	for _ in $(seq "$tenths"); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}

# npm_install FOLDER NAME…: packages into a folder.
npm_install() { (cd "$1" && shift && npm install --no-audit --no-fund --loglevel=error --no-update-notifier "$@"); }

# packages FILE: what a package.json names, in $cache.
packages() {
	echo "# packages, in $cache"
	mkdir -p "$cache"
	if ! cmp -s "$1" "$cache/package.json" || [ ! -d "$cache/node_modules" ]; then
		cp "$1" "$cache/package.json"
		npm_install "$cache" || { rm "$cache/package.json"; exit 1; }
	fi
	cp tools/scripts/*.mjs "$(dirname "$1")"/*.mjs "$cache/"
}

# claude_code: a Claude Code, which is $claude.
claude_code() {
	claude=$caches/mcpschedd-clients/claude/node_modules/.bin/claude version=2.1.328
	! "$claude" --version 2>/dev/null | grep -q "^$version " || return 0
	mkdir -p "$caches/mcpschedd-clients/claude"
	echo '{"private":true}' >"$caches/mcpschedd-clients/claude/package.json"
	npm_install "$caches/mcpschedd-clients/claude" "@anthropic-ai/claude-code@$version"
}

# go_server NAME MODULE VERSION [PACKAGE]: a server written in Go, which is $server, built in a
# module of its own, so that its dependencies meet no others.
go_server() {
	server=$cache/go/$1-$3
	[ ! -x "$server" ] || return 0
	mkdir -p "$work/go/$1" "$cache/go"
	printf 'module throwaway\n\ngo 1.26\n\nrequire %s %s\n' "$2" "$3" >"$work/go/$1/go.mod"
	(cd "$work/go/$1" && timeout 600 go build -mod=mod -o "$server" "$2${4:-}")
}

# postgres: a database, reached by $port on loopback and by the command $sql; false where it is
# not installed. Root may not run one.
postgres() {
	initdb=$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)
	[ -n "$initdb" ] || return 1
	as=
	[ "$(id -u)" != 0 ] || as="setpriv --reuid=postgres --regid=postgres --clear-groups"
	data=$work/data
	mkdir "$data"
	[ "$(id -u)" != 0 ] || chown postgres "$data"
	$as "$initdb" -D "$data/db" -U postgres -A trust >"$work/initdb.log" 2>&1 || die "$(cat "$work/initdb.log")"
	port=$((20000 + $$ % 20000))
	$as "${initdb%initdb}postgres" -D "$data/db" -k "$data" -p "$port" -h 127.0.0.1 >"$work/postgres.log" 2>&1 &
	database=$!
	sql="psql -q -h 127.0.0.1 -p $port -U postgres -c"
	within 100 $sql 'SELECT 1' || die "$(cat "$work/postgres.log")"
}

# database_upstream: the configuration of toolbox before that database.
database_upstream() {
	cat <<END
[upstreams.db]
command = "$cache/node_modules/.bin/toolbox"
args = ["--prebuilt", "postgres", "--stdio"]
env = { POSTGRES_HOST = "127.0.0.1", POSTGRES_PORT = "$port", POSTGRES_DATABASE = "postgres", POSTGRES_USER = "postgres", POSTGRES_PASSWORD = "none" }
provider = "postgres"
END
}

# serve_http CONFIG: a proxy over HTTP, in the background; $proxy is its pid, $url its address.
serve_http() {
	: >"$work/http.log"
	"$bin" serve --config "$1" --http 127.0.0.1:0 2>>"$work/http.log" &
	proxy=$!
	running="$running $proxy"
	within 300 grep -q 'msg="serving HTTP"' "$work/http.log" || die "$(cat "$work/http.log")"
	url=$(sed -n 's/.*msg="serving HTTP" url=\([^ ]*\).*/\1/p' "$work/http.log")
}

# model NAME STEP…: a model that takes those steps, whose address is in $work/NAME; $model is its pid.
model() {
	name=$1
	shift
	rm -f "$work/$name"
	node "$root/tools/clients/claude-model.mjs" "$@" >"$work/$name" &
	model=$!
	running="$running $model"
	within 600 test -s "$work/$name" || die "nothing in $work/$name"
}

# with_model NAME COMMAND…: a Claude Code with that model.
with_model() {
	ANTHROPIC_BASE_URL=$(cat "$work/$1") ANTHROPIC_API_KEY=none IS_SANDBOX=1 ENABLE_TOOL_SEARCH=false CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
	export ANTHROPIC_BASE_URL ANTHROPIC_API_KEY IS_SANDBOX ENABLE_TOOL_SEARCH CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC
	shift
	exec "$@"
}

# own_home: what is started from now on has $work as its HOME, by which left finds it.
own_home() {
	HOME=$work
	export HOME
}

# left: the processes that have it and are not in $running. One that has ended, and that init has
# not yet taken note of, is not left.
left() {
	for file in $(HOME=/ grep -lsaF "HOME=$work" /proc/[0-9]*/environ || :); do
		pid=${file#/proc/} pid=${pid%/environ}
		case " $running $database $$ " in *" $pid "*) continue ;; esac
		case $(ps -o stat= -o comm= -p "$pid" || :) in '' | Z* | *' sh') ;; *) echo "$pid" ;; esac
	done
}

# nothing_left: a check of that, where there is /proc.
nothing_left() {
	[ -d /proc/self ] || return 0
	rest=$(left)
	if [ -z "$rest" ]; then ok 'no process is left'; else fail "processes are left: $(ps -o pid= -o args= -p "$(echo $rest | tr ' ' ,)" | head -n 5)"; fi
}
