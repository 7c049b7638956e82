"""Bounds of peers and of RMs: quotas, limits of silence, caps, and the sizes of an outbox."""

import ipaddress
import math
import resource
from dataclasses import dataclass, field, fields
from typing import NamedTuple
from urllib.parse import unquote

from licorne_core.values.rm_caps import RmCaps
from licorne_server.wire.caps import MAX_RMS

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
        times = {
            "--first-message": self.first_message,
            "--idle": self.idle,
            "handshake": self.handshake,
            "http_idle": self.http_idle,
        }
        for option, seconds in times.items():
            if not (math.isfinite(seconds) and seconds > 0):
                return f"{option} must be a number of seconds above 0: {seconds}"
        return too_low("--max-connections", self.connections, LEAST_CONNECTIONS)

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


IPV6_PREFIX = 64
"""Bits of an IPv6 address that identify a host: one host may have all the others."""


def host_of(peer: str) -> str:
    """The host in what grpc calls a peer: ``ipv4:10.0.0.1:5000``, ``ipv6:[::1]:5000``."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer


def peer_of(host: str) -> str:
    """Under which name a host takes its share; all hosts of an IPv6 network have the same."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), IPV6_PREFIX), strict=False))


RESERVED_PART = 8
"""Part of the places of RMs, as a divisor, that is reserved for RMs of other peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBounds:
    """Bounds of the events of one RM, in addition to those of its own configuration."""

    seconds: float = 10.0
    """Seconds for which events are retained for readers, at any number; 0 for not at all."""
    memory: int = 512 * 1024**2
    """Estimated bytes beyond which the oldest go, however young and however few they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmBounds:
    """Settings of `serve` about RMs."""

    number: int = MAX_RMS
    """Number of RMs, at most."""
    each: RmCaps = field(default_factory=RmCaps)
    """Caps of one of them."""
    events: EventBounds = EventBounds()
    """Bounds of the events of each."""
    memory: int = 0
    """Bytes of resident memory above which the process takes no new work; 0 for any number."""
    plan_pause: float = 0.05
    """Longest pause of the process for one plan, in seconds; 0 for any, without a charge. The
    default is the longest that one RM should wait for another."""
    forget_after: float = 3600.0
    """Seconds without a stream and without running allocations after which an RM is forgotten;
    0 for never."""

    @property
    def share(self) -> int:
        """Number of RMs that one peer may have registered."""
        return self.number - self.number // RESERVED_PART

    def problem(self) -> str:
        """The problem with them, in the words of the options of `serve`; empty for none."""
        each = {_option(cap.name): getattr(self.each, cap.name) for cap in fields(self.each)}
        counts = {"--max-rms": self.number, **each, "--event-memory": self.events.memory}
        times = {
            "--event-seconds": self.events.seconds,
            "--max-plan-pause": self.plan_pause,
            "--forget-after": self.forget_after,
        }
        problems = [
            *(too_low(option, value, 1) for option, value in counts.items()),
            too_low("--max-memory", self.memory, 0),
            *(no_seconds(option, value) for option, value in times.items()),
        ]
        return next(filter(None, problems), "")


def too_low(option: str, value: int, least: int) -> str:
    """The problem of a number that is below the least; empty for none."""
    return "" if value >= least else f"{option} must be {least} or more: {value}"


def no_seconds(option: str, seconds: float) -> str:
    """The problem of a length of time that is negative or not finite; empty for none."""
    if math.isfinite(seconds) and seconds >= 0:
        return ""
    return f"{option} must be a number of seconds from 0 up: {seconds}"


def _option(cap: str) -> str:
    return "--max-rm-memory" if cap == "memory" else f"--max-{cap.replace('_', '-')}"


class OutboxBounds(NamedTuple):
    """Sizes of an outbox, in bytes, at which something happens."""

    high: int = 8 * 1024 * 1024
    """Above it the RM is not scheduled."""
    low: int = 2 * 1024 * 1024
    """Below it the RM is scheduled again."""
    cap: int = 64 * 1024 * 1024
    """Above it all messages are dropped, and the RM has to register again."""
