#!/bin/sh
# One plan of 12 steps beside the same calls made one by one, by a real client
# through one proxy in front of real servers: filesystem and git on one folder, and
# Postgres. What comes back and what is changed must be equal; and a plan that is
# not let through must have called nothing.
#
#   sh tools/plan/plan.sh    needs go, node 20, npm, git and Postgres; make builds bin/mcpschedd
#
# Packages go into a cache folder of their own. Postgres runs on a socket in a
# temporary folder and on a loopback port, as a user other than root.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
bin=${BIN:-$root/bin/mcpschedd}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcpschedd-plan
for need in go node npm git "$bin"; do
	command -v "$need" >/dev/null || { echo "plan.sh: error: $need: not found" >&2; exit 1; }
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
if ! cmp -s tools/plan/package.json "$cache/package.json" || [ ! -d "$cache/node_modules" ]; then
	cp tools/plan/package.json "$cache/package.json.new"
	mv "$cache/package.json.new" "$cache/package.json"
	(cd "$cache" && npm install --no-audit --no-fund --loglevel=error --no-update-notifier) || { rm "$cache/package.json"; exit 1; }
fi
gitserver=$cache/go/git-mcp-go-v1.3.1
if [ ! -x "$gitserver" ]; then
	mkdir "$work/go"
	printf 'module throwaway\n\ngo 1.26\n\nrequire github.com/geropl/git-mcp-go v1.3.1\n' >"$work/go/go.mod"
	(cd "$work/go" && timeout 600 go build -mod=mod -o "$gitserver" github.com/geropl/git-mcp-go)
fi

go build -C tools -o "$work/tokens" ./compare/tokens

project=$work/project
mkdir "$project"
cp tools/clients/checks.mjs tools/plan/*.mjs "$cache/"

# Who may run a database: root may not.
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid=postgres --regid=postgres --clear-groups"
initdb=$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)
[ -n "$initdb" ] || { echo "plan.sh: error: initdb: not found; Postgres has to be installed" >&2; exit 1; }
data=$work/data
mkdir "$data"
[ "$(id -u)" != 0 ] || chown postgres "$data"
$as "$initdb" -D "$data/db" -U postgres -A trust >"$work/initdb.log" 2>&1 || { cat "$work/initdb.log"; exit 1; }
port=$((20000 + $$ % 20000))
$as "${initdb%initdb}postgres" -D "$data/db" -k "$data" -p "$port" -h 127.0.0.1 >"$work/postgres.log" 2>&1 &
database=$!
sql="psql -q -h 127.0.0.1 -p $port -U postgres -c"
for _ in $(seq 100); do
	$sql 'SELECT 1' >/dev/null 2>&1 && break
	sleep 0.1
done
$sql 'SELECT 1' >/dev/null || { cat "$work/postgres.log"; exit 1; }

# What all proxies of the run have in common; tools/plan/plan.mjs adds the rest.
cat >"$work/upstreams.toml" <<END
[upstreams.files]
command = "$(command -v node)"
args = ["$cache/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", "$project"]
provider = "filesystem"
tools = { deny = ["move_file"] }

[upstreams.git]
command = "$gitserver"
args = ["serve", "--write-access", "-r", "$project"]
provider = "git"

[upstreams.db]
command = "$cache/node_modules/.bin/toolbox"
args = ["--prebuilt", "postgres", "--stdio"]
env = { POSTGRES_HOST = "127.0.0.1", POSTGRES_PORT = "$port", POSTGRES_DATABASE = "postgres", POSTGRES_USER = "postgres", POSTGRES_PASSWORD = "none" }
provider = "postgres"
END

# A commit made again is the same commit, if it is of the same second.
GIT_AUTHOR_DATE='2026-03-04T05:06:07Z'
GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
HOME=$work
export GIT_AUTHOR_DATE GIT_COMMITTER_DATE HOME
# shellcheck disable=SC2086 # the SQL command is several words
timeout -k 10 300 node "$cache/plan.mjs" "$work" "$project" "$work/tokens" $sql -- "$bin"

# All that came of it has its HOME.
if [ -d /proc/self ]; then
	left=$(mark="HOME=$work" HOME=/; grep -lsaF "$mark" /proc/[0-9]*/environ | cut -d / -f 3 || :)
	if [ -n "$left" ]; then
		echo "FAIL plan: processes are left: $(ps -o pid= -o args= -p "$(echo $left | tr ' ' ,)" | head -n 5)"
		exit 1
	fi
	echo "ok   plan: no process is left"
fi
