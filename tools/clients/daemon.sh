#!/bin/sh
# Ten real clients of five real servers: configured direct, through ten proxies, and through the
# one daemon that mcpschedd connect starts; then with two servers that may not be shared. It prints
# processes, memory and times, and fails where a target is missed. Claude Code checks its
# connection, too, where make claude has installed it.
#
#   sh tools/clients/daemon.sh    needs Linux, and what make clients installs; make builds bin/mcpschedd
cd "$(dirname "$0")/../.." && . tools/scripts/lib.sh
need "$bin" "$cache/node_modules/@upstash/context7-mcp/package.json" "$cache/node_modules/@modelcontextprotocol/sdk/package.json"
claude=$cache/claude/node_modules/.bin/claude
[ -x "$claude" ] || claude=
cp tools/clients/daemon.mjs "$cache/"
timeout 600 node "$cache/daemon.mjs" "$bin" "$work" "$cache/node_modules" $claude
