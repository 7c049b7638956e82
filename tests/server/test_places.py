"""Places that all share, and that nobody has all of."""

from contextlib import ExitStack

import pytest

from licorne_server.errors import CallError
from licorne_server.peer_bounds import RESERVE, PeerBounds
from licorne_server.peers import party_of
from licorne_server.places import Places


def test_party_has_its_share_and_others_have_theirs() -> None:
    """One place more than its share is refused to a party, and not to another one."""
    places = Places("things", "TOO_MANY", total=3, share=2)
    with ExitStack() as stack:
        for party in ("a", "a", "b"):
            stack.enter_context(places.taken(party))
        with pytest.raises(CallError, match="things: at most 2 of one peer"):
            stack.enter_context(places.taken("a"))
        with pytest.raises(CallError, match=r"things: at most 3$"):
            stack.enter_context(places.taken("b"))


def test_places_are_given_back() -> None:
    """A place that was left is free, also when it was left by an error; a refusal takes none."""
    places = Places("things", "TOO_MANY", total=1, share=1)

    def fail() -> None:
        with places.taken("a"):
            with pytest.raises(CallError), places.taken("b"):
                pass
            raise ValueError("inside")

    for _ in range(3):
        with pytest.raises(ValueError, match="inside"):
            fail()


@pytest.mark.parametrize(
    ("host", "party"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_addresses_of_one_network_are_one_party(host: str, party: str) -> None:
    """A host may have a whole network of IPv6, and gets no larger share for that."""
    assert party_of(host) == party


@pytest.mark.parametrize(
    ("limit", "affordable"),
    [(256, (16, 32)), (1024, (688, 128)), (1 << 20, (4096, 256))],
)
def test_files_are_divided_between_the_ports(
    monkeypatch: pytest.MonkeyPatch, limit: int, affordable: tuple[int, int]
) -> None:
    """Whatever the limit of open files is, both ports together leave a reserve."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert PeerBounds().affordable() == affordable
    assert sum(affordable) <= limit - RESERVE
