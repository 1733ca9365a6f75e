#!/usr/bin/env bash
# Runs Go tests: packaging/gotest.sh FLAG … -- PACKAGE … What fails is tried once more, alone, after the others, unless more than ten fail;
# then test/summary tells what failed twice, what needed the second try, and where the time went.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=()
while [ "$1" != -- ]; do
	flags+=("$1")
	shift
done
shift

gotestsum=$(packaging/tool.sh gotestsum)
events=$(mktemp)
# Where the browser's tests note what has failed twice already: see test/e2e.
GATEWAY_TRIED=$(mktemp -d)
export GATEWAY_TRIED
trap 'rm -rf "$events" "$GATEWAY_TRIED"' EXIT
status=0
"$gotestsum" --format pkgname --hide-summary all --jsonfile "$events" --rerun-fails=1 --rerun-fails-max-failures=10 \
	--packages "$*" -- -count=1 "${flags[@]}" || status=1
go run ./test/summary <"$events" || status=1
exit $status
