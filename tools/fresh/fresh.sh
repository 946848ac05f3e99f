#!/bin/sh
# Writes, and reads what was written, through one proxy in front of real servers:
# filesystem and git on one folder, and Postgres where it is installed. No answer
# may be from before a write, and unchanged answers must come from the store.
#
#   sh tools/fresh/fresh.sh    needs go, node 20, npm and git; make builds bin/mcpschedd
#
# Packages go into the cache folder of clients.sh. Postgres runs on a socket in a
# temporary folder and on a loopback port, as a user other than root.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
bin=${BIN:-$root/bin/mcpschedd}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcpschedd-fresh
for need in go node npm git "$bin"; do
	command -v "$need" >/dev/null || { echo "fresh.sh: error: $need: not found" >&2; exit 1; }
done

work=$(mktemp -d)
chmod 755 "$work"
database=
finish() {
	if [ -n "$database" ]; then
		kill -INT "$database" 2>/dev/null || :
		wait "$database" 2>/dev/null || :
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

echo "# packages, in $cache"
mkdir -p "$cache/go"
if ! cmp -s tools/fresh/package.json "$cache/package.json" || [ ! -d "$cache/node_modules" ]; then
	cp tools/fresh/package.json "$cache/package.json.new"
	mv "$cache/package.json.new" "$cache/package.json"
	(cd "$cache" && npm install --no-audit --no-fund --loglevel=error --no-update-notifier) || { rm "$cache/package.json"; exit 1; }
fi
gitserver=$cache/go/git-mcp-go-v1.3.1
if [ ! -x "$gitserver" ]; then
	mkdir "$work/go"
	printf 'module throwaway\n\ngo 1.26\n\nrequire github.com/geropl/git-mcp-go v1.3.1\n' >"$work/go/go.mod"
	(cd "$work/go" && timeout 600 go build -mod=mod -o "$gitserver" github.com/geropl/git-mcp-go)
fi

project=$work/project
mkdir "$project"
(
	cd "$project"
	echo first >first.txt
	git init -q .
	git config user.name Ada
	git config user.email ada@example.org
	git add .
	git commit -qm 'a first thing'
)

# The store must have something to be wrong about, so every read is stored for
# longer than the whole run takes.
cat >"$work/config.toml" <<END
[server]
state_dir = "$work/state"

[upstreams.files]
command = "$(command -v node)"
args = ["$cache/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", "$project"]
provider = "filesystem"

[upstreams.git]
command = "$gitserver"
args = ["serve", "--write-access", "-r", "$project"]
provider = "git"

[tools."files/*".cost_model]
freshness_ttl_s = 600

[tools."git/*".cost_model]
freshness_ttl_s = 600
END

# Who may run a database: root may not.
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid=postgres --regid=postgres --clear-groups"
sql=
initdb=$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)
if [ -z "$initdb" ]; then
	echo "skip Postgres: initdb is not installed"
else
	data=$work/data
	mkdir "$data"
	[ "$(id -u)" != 0 ] || chown postgres "$data"
	$as "$initdb" -D "$data/db" -U postgres -A trust >"$work/initdb.log" 2>&1 || { cat "$work/initdb.log"; exit 1; }
	port=$((20000 + $$ % 20000))
	$as "${initdb%initdb}postgres" -D "$data/db" -k "$data" -p "$port" -h 127.0.0.1 >"$work/postgres.log" 2>&1 &
	database=$!
	psql="psql -q -h 127.0.0.1 -p $port -U postgres -c"
	for _ in $(seq 100); do
		$psql 'SELECT 1' >/dev/null 2>&1 && break
		sleep 0.1
	done
	$psql 'SELECT 1' >/dev/null || { cat "$work/postgres.log"; exit 1; }
	sql=$psql
	cat >>"$work/config.toml" <<END

[upstreams.db]
command = "$cache/node_modules/.bin/toolbox"
args = ["--prebuilt", "postgres", "--stdio"]
env = { POSTGRES_HOST = "127.0.0.1", POSTGRES_PORT = "$port", POSTGRES_DATABASE = "postgres", POSTGRES_USER = "postgres", POSTGRES_PASSWORD = "none" }
provider = "postgres"

[tools."db/*".cost_model]
freshness_ttl_s = 600
END
fi

# shellcheck disable=SC2086 # the SQL command is several words
timeout 180 node tools/fresh/fresh.mjs "$project" $sql -- "$bin" serve --config "$work/config.toml"
