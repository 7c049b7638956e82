#!/usr/bin/env bash
# Makes a base for the image of Debian's packages, for where none can be pulled:
#
#   base.sh IMAGE [ENGINE]
#
# The packages come from where this machine has its own from.
set -euo pipefail
image=$1 engine=${2:-}

command -v mmdebstrap > /dev/null || { echo 'image-base: mmdebstrap is not installed; Debian has it as a package' >&2; exit 1; }
engine=$("$(dirname "$0")"/engine.sh "$engine")

suite=bookworm sources=()
for file in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
    if [ -s "$file" ]; then
        suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
        sources=("$file")
        break
    fi
done

made=$(mktemp)
trap 'rm -f "$made"' EXIT
mmdebstrap --quiet --variant=minbase --include=python3-venv,python-is-python3,ca-certificates \
    "$suite" - "${sources[@]}" > "$made"
"$engine" import "$made" "$image"
