# syntax=docker/dockerfile:1

# Give it with its digest, as `make image` wants it: a tag is another image next month.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# What `make image` gives: HTTP/2 for the server, as no compiler of Rust is wanted here, and with WHEELS the compiled server.
COPY deploy/image/wheels /given
# A compiler, which does not leave this stage. A slim base has none, and Debian's Python comes without its headers.
# A server that was compiled for another Python is not for this image.
RUN abi=$(python -c 'import sys; print("cp%d%d" % sys.version_info[:2])') \
 && mkdir /wheels \
 && if cp /given/licorne_server-*-"$abi"-*.whl /wheels 2> /dev/null; then exit; fi \
 && headers=$(python -c 'import os, sysconfig; print("" if os.path.exists(sysconfig.get_path("include") + "/Python.h") else "python3-dev")') \
 && apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev $headers \
 && rm -rf /var/lib/apt/lists/*
COPY constraints constraints
# What is not ours is installed from locks: a file with another hash is refused, and nothing is built. The index and
# the authorities of pip are those that `make image` gives, if it does.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=authorities \
    python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --only-binary :all: -r constraints/build.txt \
 && python -m venv /opt/licorne \
 && /opt/licorne/bin/pip install --require-hashes --only-binary :all: -r constraints/runtime.txt
COPY pyproject.toml hatch_build.py native.py README.md LICENSE ./
COPY clients/cli clients/cli
COPY clients/python clients/python
COPY core core
COPY server server
# What is ours is built with the locked tools, once, and brings nothing else with it; its hot modules are compiled.
RUN ls /wheels/*.whl > /dev/null 2>&1 && own='' || own=. \
 && for project in clients/python clients/cli $own; do \
      (cd "$project" && HATCH_BUILD_HOOK_ENABLE_CUSTOM=true /opt/build/bin/hatchling build --target wheel --directory /wheels) || exit; \
    done \
 && /opt/licorne/bin/pip install --no-index --no-deps /wheels/*.whl \
 && /opt/licorne/bin/pip check
# There may be wheels of several platforms: pip takes the one that fits, and fails if none does.
RUN if ls /given/licorne_transport-*.whl > /dev/null 2>&1; then /opt/licorne/bin/pip install --no-index --no-deps --find-links /given licorne-transport; \
    else echo 'the image has no licorne-transport: one malformed request can end gRPC for all until a restart' >&2; fi
# The fast form, on a fast interpreter: an image without either is not built.
RUN /opt/licorne/bin/licorne version --client | grep 'compiled, .*, optimized$'

FROM ${BASE}
LABEL org.opencontainers.image.title="licorne" \
      org.opencontainers.image.description="Resource scheduler core served over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is written below the root: bytecode was made while building, logs go to stderr.
ENV PATH=/opt/licorne/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/licorne /opt/licorne
# A volume that is mounted here for the first time takes over whose the folder is.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/licorne /etc/licorne/tls \
 && install -d -o 10001 -g 10001 -m 0755 /etc/grafana/dashboards
# A number, so that an orchestrator can see that it is not root.
USER 10001:10001
WORKDIR /tmp
EXPOSE 7070 9080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["licorne", "healthcheck"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["licorne"]
# Refuses to start until it is given certificates, or --insecure on a network that is trusted.
CMD ["serve", "--listen", "0.0.0.0:7070", "--http", "0.0.0.0:9080"]
