#!/bin/sh
# Writes, and reads what was written, through one proxy in front of real servers:
# filesystem and git on one folder, and Postgres where it is installed. No answer
# may be from before a write, and unchanged answers must come from the store.
#
#   sh tools/fresh/fresh.sh    needs go, node 20, npm and git; make builds bin/mcpschedd
#
# Packages go into the cache folder of plan.sh. Postgres runs on a socket in a
# temporary folder and on a loopback port, as a user other than root.
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh && need go node npm git "$bin"
cache=$caches/mcpschedd-plan
packages tools/plan/package.json
go_server git-mcp-go github.com/geropl/git-mcp-go v1.3.1

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
command = "$server"
args = ["serve", "--write-access", "-r", "$project"]
provider = "git"

[tools."files/*".cost_model]
freshness_ttl_s = 600

[tools."git/*".cost_model]
freshness_ttl_s = 600
END

if postgres; then
	{
		echo
		database_upstream
		printf '[tools."db/*".cost_model]\nfreshness_ttl_s = 600\n'
	} >>"$work/config.toml"
else
	sql=
	echo "skip Postgres: initdb is not installed"
fi

# shellcheck disable=SC2086 # the SQL command is several words
timeout 180 node tools/fresh/fresh.mjs "$project" $sql -- "$bin" serve --config "$work/config.toml"
