"""Who is at the other end of a call."""

from urllib.parse import unquote


def host_of(peer: str) -> str:
    """The host in what grpc calls a peer: ``ipv4:10.0.0.1:5000``, ``ipv6:[::1]:5000``."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer
