#!/usr/bin/env bash
# Builds the image with docker, podman or buildah:
#
#   build.sh BASE IMAGE [ENGINE]
#
# The server is compiled in the build, unless WHEELS names a folder with its compiled wheel for the base's Python, such
# as `make dist` makes.
# A machine may reach the package index in its own way: pip in the build is given the index and the authorities
# that pip has here. They are secrets of the build, and not in the image.
set -euo pipefail
base=$1 image=$2 engine=${3:-}

case $base in
    *@sha256:* | localhost/*) ;;
    *)
        echo "image: BASE must name an image by its digest, or one of this machine: make image BASE=python:3.11-slim@sha256:...," \
            "or BASE=localhost/...: '$base'" >&2
        exit 1
        ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
engine=$(deploy/image/engine.sh "$engine")

options=()
if ! "$engine" --version | grep -q Docker; then
    # The form that knows HEALTHCHECK; and limits that a process may set that has not all of root's privileges.
    options+=(--format docker --network host --ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
fi

given=$(mktemp -d)
trap 'rm -rf "$given" deploy/image/wheels/*.whl' EXIT
# Of what is set twice the environment counts, whose names begin with a colon.
{ "${PYTHON:-python3}" -m pip config list 2> /dev/null || true; } | sort -r > "$given/all"
value() { sed -nE "s/^.*\.$1='(.*)'$/\1/p" "$given/all" | tail -n 1; }
echo '[global]' > "$given/pip.conf"
for key in index-url extra-index-url trusted-host proxy; do
    found=$(value "$key")
    if [ -n "$found" ]; then echo "$key = $found" >> "$given/pip.conf"; fi
done
authorities=$(value cert)
authorities=${authorities:-${SSL_CERT_FILE:-${REQUESTS_CA_BUNDLE:-}}}
if [ -f "$authorities" ]; then
    options+=(--secret "id=authorities,src=$authorities")
    echo 'cert = /run/secrets/authorities' >> "$given/pip.conf"
fi
options+=(--secret "id=pip,src=$given/pip.conf")

# HTTP/2 for the server. An older one is none of this checkout's.
if [ -n "${CARGO:-}" ]; then make --no-print-directory transport; fi
rm -f deploy/image/wheels/*.whl
if ! cp dist/licorne_transport-*.whl deploy/image/wheels/ 2> /dev/null; then
    echo "image: it is built without licorne-transport, which 'make transport' makes where there is cargo: one malformed" \
        "request of whoever reaches the port can end gRPC for all until a restart" >&2
fi
if [ -n "${WHEELS:-}" ] && ! cp "$WHEELS"/licorne_server-*-cp*.whl deploy/image/wheels/ 2> /dev/null; then
    echo "image: WHEELS: no compiled wheel of the server in '$WHEELS'; 'make dist' makes one, in dist" >&2
    exit 1
fi

"$engine" build "${options[@]}" --build-arg "BASE=$base" --tag "$image" .
