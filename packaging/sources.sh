#!/usr/bin/env bash
# Prints apt sources of another release of Debian, on the mirrors that this machine uses: packaging/sources.sh trixie
set -euo pipefail
wanted=${1:?name of a release}

release=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
	awk -v wanted="$wanted" -v main="$release" -v security="$release-security" '
		$2 == main { print "deb " $1 " " wanted " main" }
		$2 == security { print "deb " $1 " " wanted "-security main" }' | sort -u)
if [ -z "$sources" ]; then
	echo "apt has no package lists of $release: does this machine use Debian's sources?" >&2
	exit 1
fi
echo "$sources"
