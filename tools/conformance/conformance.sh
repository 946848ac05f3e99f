#!/bin/sh
# The MCP conformance suites, run against the official Go SDK's
# everything-server directly and through mcpschedd, in front of it as a stdio
# and as an HTTP upstream. Needs Go and npm; installs into results/ only.
#
#   sh tools/conformance/conformance.sh
#
# What must hold: 0.1.16 --suite all and --requirements 2025-11-25 without a
# failure; of --requirements 2026-07-28 no check fails that passes directly.
set -u
cd "$(dirname "$0")/../.."
root=$PWD
work=$root/results/conformance
bin=$root/bin/mcpschedd
mkdir -p "$work"

install() { # folder, package
	[ -x "$work/$1/node_modules/.bin/conformance" ] && return
	mkdir -p "$work/$1" && (cd "$work/$1" && npm init -y >/dev/null 2>&1 && npm install --silent "$2" node@22) || exit 1
}
install stable @modelcontextprotocol/conformance@0.1.16
install next @modelcontextprotocol/conformance@0.2.0-alpha.12

fixture=$work/everything-server
if [ ! -x "$fixture" ]; then
	mkdir -p "$work/fixture" && cd "$work/fixture" || exit 1
	printf 'module fixture\n\ngo 1.26\n' >go.mod
	go get github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0 &&
		go build -o "$fixture" github.com/modelcontextprotocol/go-sdk/conformance/everything-server || exit 1
	cd "$root" || exit 1
fi

pids=
trap 'for pid in $pids; do kill "$pid" 2>/dev/null; done' EXIT INT TERM
start() { # name, command…
	name=$1
	shift
	"$@" >"$work/$name.log" 2>&1 &
	pids="$pids $!"
}
proxy() { # name, port, upstream line
	rm -rf "$work/state-$1"
	printf '[server]\nstate_dir = "%s"\n[upstreams.fixture]\n%s\n' "$work/state-$1" "$3" >"$work/$1.toml"
	start "$1" "$bin" serve --config "$work/$1.toml" --http "127.0.0.1:$2" --auth none
}
start stateless "$fixture" -http 127.0.0.1:3311
start sessions "$fixture" -http 127.0.0.1:3312 -stateless=false
proxy via-stdio 3313 "command = \"$fixture\""
proxy via-http-stateless 3314 'url = "http://127.0.0.1:3311/mcp"'
proxy via-http-sessions 3315 'url = "http://127.0.0.1:3312/mcp"'
for port in 3311 3312 3313 3314 3315; do
	tries=0
	until curl -s -o /dev/null "http://127.0.0.1:$port/"; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || { echo "nothing listens on port $port"; exit 1; }
		sleep 0.1
	done
done

suite() { # folder, port, name, arguments…
	folder=$1 port=$2 name=$3
	shift 3
	rm -rf "$work/checks-$name"
	(cd "$work/$folder" && PATH=$PWD/node_modules/node/bin:$PATH timeout 600 node_modules/.bin/conformance server \
		--url "http://127.0.0.1:$port/mcp" "$@" -o "$work/checks-$name" >"$work/$name.out" 2>&1)
	grep '^Total:' "$work/$name.out" | sed "s/^Total:/$name:/"
}
failed=0
none() { # name: no check may have failed
	grep -q '^Total: .* 0 failed' "$work/$1.out" || { failed=1; grep '^✗' "$work/$1.out"; }
}
suite stable 3313 all-via-stdio --suite all && none all-via-stdio
suite stable 3315 all-via-http --suite all && none all-via-http
suite next 3313 2025-11-25-via-stdio --requirements 2025-11-25 && none 2025-11-25-via-stdio
suite next 3315 2025-11-25-via-http --requirements 2025-11-25 && none 2025-11-25-via-http
suite next 3311 2026-07-28-direct --requirements 2026-07-28
suite next 3313 2026-07-28-via-stdio --requirements 2026-07-28
suite next 3314 2026-07-28-via-http --requirements 2026-07-28
for via in stdio http; do
	"$work/next/node_modules/node/bin/node" tools/conformance/diff.mjs "$work/checks-2026-07-28-direct" "$work/checks-2026-07-28-via-$via" || failed=1
done
exit $failed
