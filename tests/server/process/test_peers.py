"""Peers by address, and the division of open files between the ports."""

import pytest

from licorne_server.process.bounds import RESERVE, PeerBounds, peer_of


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_addresses_of_one_network_are_one_peer(host: str, peer: str) -> None:
    """All addresses of an IPv6 network share one quota."""
    assert peer_of(host) == peer


@pytest.mark.parametrize(
    ("limit", "affordable"),
    [(256, (16, 32)), (1024, (688, 128)), (1 << 20, (4096, 256))],
)
def test_files_are_divided_between_the_ports(
    monkeypatch: pytest.MonkeyPatch, limit: int, affordable: tuple[int, int]
) -> None:
    """Under any limit of open files both ports together leave a reserve."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert PeerBounds().affordable() == affordable
    assert sum(affordable) <= limit - RESERVE
