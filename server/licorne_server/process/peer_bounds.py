"""Quotas of one peer in shared resources, and limits of silence."""

import math
import resource
from dataclasses import dataclass

METRICS_CONNECTIONS = 16
"""Connections of the address for metrics: some scrapers, and probes."""

RESERVE = 192 + METRICS_CONNECTIONS
"""Descriptors kept free of other peers: files, loop, refused connections and monitoring."""

LEAST_CONNECTIONS = 16
HTTP_PART = 8
"""Part of the descriptors for HTTP, as a divisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBounds:
    """Times are in seconds. A share is what one peer may have of a total (`fair.PeerQuota`)."""

    first_message: float = 30.0
    """Seconds that a stream may stay open without a message."""
    idle: float = 300.0
    """Seconds that a gRPC connection may stay open without a call."""
    handshake: float = 20.0
    """Seconds until a gRPC connection must be able to carry calls."""
    http_idle: float = 15.0
    """Seconds that an HTTP connection may take for a request's head, or stay without one."""
    connections: int = 4096
    """Connections of gRPC; fewer if the limit of open files is too low."""
    http_connections: int = 256
    """Connections of HTTP; fewer if the limit of open files is too low."""
    waiting: int = 512
    """Streams that have sent nothing yet."""
    waiting_share: int = 128
    calls: int = 1024
    """Unary calls under way."""
    calls_share: int = 256
    watchers: int = 512
    """Calls that watch: events, health, reflection."""
    watchers_share: int = 128

    def problem(self) -> str:
        """The problem with them, in the words of the options of `serve`; empty for none."""
        for option, seconds in (
            ("--first-message", self.first_message),
            ("--idle", self.idle),
            ("handshake", self.handshake),
            ("http_idle", self.http_idle),
        ):
            if not (math.isfinite(seconds) and seconds > 0):
                return f"{option} must be a number of seconds above 0: {seconds}"
        if self.connections < LEAST_CONNECTIONS:
            return f"--max-connections must be {LEAST_CONNECTIONS} or more: {self.connections}"
        return ""

    def affordable(self) -> tuple[int, int]:
        """Connections of gRPC and of HTTP that the limit of open files allows.

        Either has descriptors of its own, so that a flood of one port leaves the other open.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return self.connections, self.http_connections
        http = min(self.http_connections, limit // HTTP_PART)
        return min(self.connections, limit - RESERVE - http), http


def raise_file_limit() -> None:
    """Let this process open as many files as it may at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
