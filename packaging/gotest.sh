#!/usr/bin/env bash
# Runs Go tests: packaging/gotest.sh FLAG … -- PACKAGE … Unless more than ten tests fail, those that do are retried once after the others, with
# all of their subtests, because many depend on the previous one. Then test/summary reports what failed twice, what needed the second try,
# and where the time went.
set -euo pipefail
cd "$(dirname "$0")/.."

# Databases and labs create and remove hundreds of thousands of temporary files: if there is enough memory, they are in a tmpfs, which is
# unmounted after the tests. The name is short, because paths of sockets are limited.
if [ -z "${GATEWAY_TMP:-}" ] && [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -gt 12000000 ]; then
	GATEWAY_TMP=$(mktemp -d /tmp/gw-XXXX)
	export GATEWAY_TMP
	status=0
	unshare --mount bash -c 'mount -t tmpfs -o mode=1777,size=8g gateway-tests "$GATEWAY_TMP" && TMPDIR=$GATEWAY_TMP exec "$@"' bash packaging/gotest.sh "$@" || status=$?
	rmdir "$GATEWAY_TMP"
	exit $status
fi

flags=()
while [ "$1" != -- ]; do
	flags+=("$1")
	shift
done
shift

gotestsum=$(packaging/tool.sh gotestsum)
events=$(mktemp)
# Where the browser tests record what has already failed twice: see test/e2e.
GATEWAY_TRIED=$(mktemp -d)
export GATEWAY_TRIED
trap 'rm -rf "$events" "$GATEWAY_TRIED"' EXIT
status=0
"$gotestsum" --format pkgname --hide-summary all --jsonfile "$events" --rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures=10 \
	--packages "$*" -- -count=1 "-ldflags=-s -w" "${flags[@]}" || status=1
go run ./test/summary <"$events" || status=1
exit $status
