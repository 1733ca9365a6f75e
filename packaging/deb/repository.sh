#!/usr/bin/env bash
# Creates a signed apt repository in DIST/apt from the packages in DIST: packaging/deb/repository.sh DIST. SIGNING_KEY names the key of the caller's keyring that
# signs it; without it, a key is created and kept in DIST/keyring, which is enough for tests and private networks. The repository also contains its public key
# and the apt source to add to machines.
set -euo pipefail
cd "${1:?folder}"
url=${REPOSITORY_URL:-file:$PWD/apt}

shopt -s nullglob
packages=(gateway_*.deb)
if [ ${#packages[@]} -eq 0 ]; then
	echo "There is no package in $PWD: make package builds one." >&2
	exit 1
fi

key=${SIGNING_KEY:-}
if [ -z "$key" ]; then
	export GNUPGHOME=$PWD/keyring
	key=gateway-repository
	mkdir -p -m 700 "$GNUPGHOME"
	if ! gpg --batch --list-secret-keys "$key" >/dev/null 2>&1; then
		gpg --batch --quiet --passphrase '' --quick-generate-key "$key" ed25519 sign never
	fi
	trap 'gpgconf --kill gpg-agent' EXIT
fi

# Built elsewhere and renamed, so that clients see either the previous repository or the new one.
work=apt.new
rm -rf "$work"
mkdir -p "$work/pool"
cp --reflink=auto -p "${packages[@]}" "$work/pool/"
cd "$work"
architectures=$(for p in pool/*.deb; do dpkg-deb --field "$p" Architecture; done | sort -u | xargs)
for arch in $architectures; do
	binary=dists/stable/main/binary-$arch
	mkdir -p "$binary"
	apt-ftparchive --arch "$arch" packages pool >"$binary/Packages"
	gzip -9nk "$binary/Packages"
done
release=$(apt-ftparchive -o APT::FTPArchive::Release::Origin=Gateway -o APT::FTPArchive::Release::Label=Gateway \
	-o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Codename=stable \
	-o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures="$architectures" release dists/stable)
echo "$release" >dists/stable/Release
gpg --batch --yes --quiet --local-user "$key" --clearsign --output dists/stable/InRelease dists/stable/Release
gpg --batch --yes --quiet --local-user "$key" --armor --detach-sign --output dists/stable/Release.gpg dists/stable/Release
gpg --batch --quiet --armor --export "$key" >gateway.asc
printf 'Types: deb\nURIs: %s\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/gateway.asc\n' "$url" >gateway.sources
cd ..
rm -rf apt
mv "$work" apt
echo "$PWD/apt has $(cd apt/pool && echo *.deb)"
