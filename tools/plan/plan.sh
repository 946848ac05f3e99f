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
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh && need go node npm git "$bin"
cache=$caches/mcpschedd-plan
packages tools/plan/package.json
go_server git-mcp-go github.com/geropl/git-mcp-go v1.3.1
postgres || die "initdb: not found; Postgres has to be installed"
go build -C tools -o "$work/tokens" ./compare/tokens

project=$work/project
mkdir "$project"

# What all proxies of the run have in common; tools/plan/plan.mjs adds the rest.
cat >"$work/upstreams.toml" <<END
[upstreams.files]
command = "$(command -v node)"
args = ["$cache/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", "$project"]
provider = "filesystem"
tools = { deny = ["move_file"] }

[upstreams.git]
command = "$server"
args = ["serve", "--write-access", "-r", "$project"]
provider = "git"

$(database_upstream)
END

# A commit made again is the same commit, if it is of the same second.
GIT_AUTHOR_DATE='2026-03-04T05:06:07Z'
GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
own_home
# shellcheck disable=SC2086 # the SQL command is several words
timeout -k 10 300 node "$cache/plan.mjs" "$work" "$project" "$work/tokens" $sql -- "$bin"

nothing_left
[ "$failed" = 0 ]
