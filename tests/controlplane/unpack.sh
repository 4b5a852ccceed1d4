#!/usr/bin/env bash
# Unpacks a program that comes compressed (FILE.xz), once, and prints where it is. It is kept beside
# what build.sh builds, keyed by its content.
set -euo pipefail
packed=$1
cache=${KUBECTL_DS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-ds}
name=$(basename "$packed" .xz)
folder=$cache/$name-$(sha256sum <"$packed" | cut -c1-16)
binary=$folder/$name
if [ ! -x "$binary" ]; then
	mkdir -p "$folder"
	xz -dc "$packed" >"$binary.$$"
	chmod +x "$binary.$$"
	mv "$binary.$$" "$binary"
fi
echo "$binary"
