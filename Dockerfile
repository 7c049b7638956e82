# syntax=docker/dockerfile:1

FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/licorne
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY clients/python clients/python
COPY core core
COPY server server
# The client first: it is not on a package index, and the server depends on it.
RUN /opt/licorne/bin/pip install -c constraints.txt ./clients/python .

FROM python:3.11-slim
LABEL org.opencontainers.image.title="licorne" \
      org.opencontainers.image.description="Resource scheduler core served over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is written below the root: bytecode was made while building, logs go to stderr.
ENV PATH=/opt/licorne/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/licorne /opt/licorne
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
