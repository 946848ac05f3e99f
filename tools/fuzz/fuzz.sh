#!/bin/sh
# Runs every fuzz target of both modules, one after the other, for TIME each
# (default 10s); exit code 1 if one finds something. An input is minimised for a second: the default
# is a minute, in which a target with long inputs would do nothing else.
#
#   sh tools/fuzz/fuzz.sh 60s
set -eu
cd "$(dirname "$0")/../.."
time=${1:-10s}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM

failed=0 count=0
for package in $(go list ./...); do
	targets=$(go test -list '^Fuzz' "$package") || { printf 'FAIL %s does not build\n' "$package"; failed=1; continue; }
	for target in $(printf '%s\n' "$targets" | grep '^Fuzz' || :); do
		count=$((count + 1))
		if go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s "$package" >"$out" 2>&1; then
			printf 'ok   %s %s: %s\n' "$package" "$target" "$(sed -n 's/^fuzz: elapsed.*execs: \([0-9]*\).*/\1 runs/p' "$out" | tail -n 1)"
		else
			failed=1
			printf 'FAIL %s %s\n' "$package" "$target"
			cat "$out"
		fi
	done
done
printf '%s fuzz targets, %s each\n' "$count" "$time"
exit $failed
