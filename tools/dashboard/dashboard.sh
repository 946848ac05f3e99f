#!/bin/sh
# Looks at the dashboard in a real browser: pictures in results/dashboard, those of the
# demo among them, and the checks of what is on the page. Installs Debian's chromium
# where there is none.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
	if ! command -v apt-get >/dev/null; then
		echo "dashboard: want chromium, chromium-browser or google-chrome in PATH" >&2
		exit 1
	fi
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-dejavu-core >/dev/null
fi
rm -f results/dashboard/*.png
MCPSCHEDD_SHOTS="$PWD/results/dashboard" go test -C tools -tags browser -vet=off -count 1 -parallel 4 -timeout 10m ./dashboard
ls results/dashboard
