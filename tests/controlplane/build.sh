#!/usr/bin/env bash
# Builds one program for one Kubernetes minor release, once, and prints where the binary is:
#
#     build.sh parts|oracle|kwok [MINOR]
#
# Binaries lie in $KUBECTL_DS_CACHE (default: the user's cache folder), keyed by all that goes
# into them, so that a second run costs nothing and an edit never meets an old binary.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1
minor=${2:-1.37}
cache=${KUBECTL_DS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-ds}

command -v go >/dev/null || {
	echo "go was not found: the end-to-end tests build the control plane from source and need Go 1.26 or later" >&2
	exit 1
}

if [ "$program" = kwok ]; then
	modfile=$here/kwok.mod sums=$here/kwok.sum
else
	modfile=$here/$minor.mod sums=$here/$minor.sum
fi
[ -f "$modfile" ] || {
	echo "no Kubernetes $minor here: write ${modfile##*/} with modfile.sh" >&2
	exit 1
}
release=$(sed -n 's/^\(require \)*\t*k8s.io\/kubernetes v\([0-9.]*\).*/\2/p' "$modfile")
flags="-s -w"
if [ -n "$release" ]; then
	# Without these the server calls itself v0.0.0.
	version=k8s.io/component-base/version
	flags="$flags -X $version.gitVersion=v$release -X $version.gitMajor=${release%%.*}"
	flags="$flags -X $version.gitMinor=$(echo "$release" | cut -d. -f2)"
fi
key=$( (cat "$modfile" "$sums" "$here/$program"/* && echo "$flags") | sha256sum | cut -c1-16)
folder=$cache/$program${release:+-$release}-$key
binary=$folder/$program
if [ ! -x "$binary" ]; then
	echo "building $program ${release:+of Kubernetes $release }(minutes, once)" >&2
	mkdir -p "$folder"
	build=$(mktemp -d)
	trap 'rm -rf "$build"' EXIT
	cp -r "$here/$program" "$build"
	cp "$modfile" "$build/go.mod"
	cp "$sums" "$build/go.sum"
	(cd "$build" && CGO_ENABLED=0 go build -mod=mod -trimpath -o "$folder/$program.$$" -ldflags "$flags" "./$program" >&2)
	mv "$folder/$program.$$" "$binary"
fi
echo "$binary"
