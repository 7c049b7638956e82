#!/usr/bin/env bash
# Names the program that makes images: the one that is asked for, or else the first that is here.
set -euo pipefail

for engine in ${1:-docker podman buildah}; do
    if command -v "$engine" > /dev/null; then
        echo "$engine"
        exit
    fi
done
echo "image: ${1:-docker, podman or buildah} is needed, and not installed" >&2
exit 1
