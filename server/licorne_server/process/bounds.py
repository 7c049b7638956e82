"""Bounds of peers and of RMs: quotas, maximum silence, caps, and the sizes of an outbox."""

import ipaddress
import resource
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from licorne_core.values.rm_caps import RmCaps
from licorne_server.wire.caps import MAX_RMS

METRICS_CONNECTIONS = 16
"""Maximum number of connections to the address for metrics, by scrapers and probes."""

RESERVE = 192 + METRICS_CONNECTIONS
"""Descriptors reserved for files, the loop, refused connections and monitoring."""

LEAST_CONNECTIONS = 16
HTTP_PART = 8
"""Divisor of the file limit that gives the descriptors for HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBounds:
    """Bounds on all peers together; `fair.PeerQuota` gives each peer its share. Times are in seconds."""

    first_message: float = 30.0
    """Seconds that a call may stay open without a complete message."""
    idle: float = 300.0
    """Seconds that a gRPC connection may stay open without a call."""
    handshake: float = 20.0
    """Seconds within which a gRPC connection must become able to carry calls."""
    http_idle: float = 15.0
    """Seconds that an HTTP connection may take for a request's head, or stay open without a request."""
    connections: int = 4096
    """Maximum number of connections over gRPC; fewer if the limit of open files is too low."""
    http_connections: int = 256
    """Maximum number of connections over HTTP; fewer if the limit of open files is too low."""
    waiting: int = 512
    """Maximum number of streams without a first message."""
    waiting_share: int = 128
    calls: int = 1024
    """Maximum number of concurrent unary calls."""
    calls_share: int = 256
    watchers: int = 512
    """Maximum number of watching calls: events, health, reflection."""
    watchers_share: int = 128

    def affordable(self) -> tuple[int, int]:
        """Connections over gRPC and over HTTP that the limit of open files allows.

        Both have separate descriptors, so that a flood of one port does not close the other.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return self.connections, self.http_connections
        http = min(self.http_connections, limit // HTTP_PART)
        return min(self.connections, limit - RESERVE - http), http


def raise_file_limit() -> None:
    """Raise the limit of open files to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


IPV6_PREFIX = 64
"""Number of leading bits of an IPv6 address that identify a host: a host may own the whole network."""


def host_of(peer: str) -> str:
    """The host in gRPC's name of a peer: ``ipv4:10.0.0.1:5000``, ``ipv6:[::1]:5000``."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer


def peer_of(host: str) -> str:
    """Name under which the quotas of a host are counted; all addresses of an IPv6 network share one."""
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
"""Divisor of the maximum number of RMs; the quotient is the number that one peer has to leave to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBounds:
    """Bounds of one RM's events, in addition to the bounds of its configuration."""

    seconds: float = 10.0
    """Seconds for which events are retained whatever their number; 0 for no time."""
    memory: int = 512 * 1024**2
    """Estimated bytes beyond which the oldest events are dropped, whatever their age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmBounds:
    """Bounds on RMs."""

    number: int = MAX_RMS
    """Maximum number of RMs."""
    each: RmCaps = field(default_factory=RmCaps)
    """Caps of each RM."""
    events: EventBounds = EventBounds()
    """Bounds of each RM's events."""
    memory: int = 0
    """Bytes of resident memory above which the process refuses new work; 0 for no limit."""
    plan_pause: float = 0.05
    """Longest pause of the process for one plan, in seconds; 0 for no limit and no charge. The
    default is the longest time that one RM should wait for another."""
    forget_after: float = 3600.0
    """Seconds without a stream and without running allocations after which an RM is evicted;
    0 for never."""

    @property
    def share(self) -> int:
        """Maximum number of RMs that one peer may register."""
        return self.number - self.number // RESERVED_PART


class OutboxBounds(NamedTuple):
    """Thresholds of the size of an outbox, in bytes."""

    high: int = 8 * 1024 * 1024
    """Size above which the RM is not scheduled."""
    low: int = 2 * 1024 * 1024
    """Size below which the RM is scheduled again."""
    cap: int = 64 * 1024 * 1024
    """Size above which all messages are dropped, and the RM has to register again."""
