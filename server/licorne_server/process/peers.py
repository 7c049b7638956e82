"""Addresses of callers."""

import ipaddress
from urllib.parse import unquote

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
