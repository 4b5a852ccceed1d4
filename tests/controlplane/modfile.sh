#!/usr/bin/env bash
# Writes MINOR.mod and MINOR.sum for a Kubernetes release: modfile.sh 1.37.2
#
# The oracle is built of the release whose rules are ported, since it calls what is not exported; the parts are built of
# each.
#
# k8s.io/kubernetes requires its staging modules as v0.0.0 and replaces them by folders of its own
# tree; outside that tree each needs the release of the same number instead.
set -euo pipefail
cd "$(dirname "$0")"
release=$1
minor=${release%.*}
staging=v0.${release#*.}
source=$(go mod download -json "k8s.io/kubernetes@v$release" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -r parts "$build"
[ "$minor" != 1.37 ] || cp -r oracle "$build"
{
	echo "module kubectl-ds.dev/controlplane"
	echo
	sed -n '/^go /p;/^godebug/p' "$source"
	echo
	echo "require k8s.io/kubernetes v$release"
	echo
	echo "replace ("
	sed -n 's/^\t\(k8s\.io\/[a-z0-9.-]*\) v0\.0\.0\( .*\)\{0,1\}$/\1/p' "$source" | sort -u |
		sed "s/.*/\t& => & $staging/"
	echo ")"
} >"$build/go.mod"
(cd "$build" && go mod tidy)
cp "$build/go.mod" "$minor.mod"
cp "$build/go.sum" "$minor.sum"
