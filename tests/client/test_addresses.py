"""Addresses of a client: those given by the caller, and those of other members sent by the server."""

import asyncio
import re
import socket
from typing import Any

import grpc
import pytest

from licorne import Admin, Client, Closed, ConnectionLost, Node, State, Unauthorized
from licorne.addresses import LONGEST_TOLD, MOST_TOLD, PASSED_OVER, Addresses, addresses_of
from licorne.channel import Dialer
from licorne_server.testing import serve
from support.patience import PATIENCE
from support.peers.scripted import QUICK, ScriptedStream, scripted, welcomes
from support.peers.shim import eventually
from support.surroundings import CLOSED

CLOSED_TOO = "127.0.0.2:1"
"""Another address without a listener."""


@pytest.mark.parametrize(
    ("target", "addresses"),
    [
        ("a:1", ("a:1",)),
        ("a:1,b:2", ("a:1", "b:2")),
        (" a:1 , b:2 ", ("a:1", "b:2")),
        (["a:1", "b:2,c:3"], ("a:1", "b:2", "c:3")),
        (("a:1", "b:2", "a:1"), ("a:1", "b:2")),
        ("[::1]:7070,host", ("[::1]:7070", "host")),
        ("::1", ("::1",)),
        ("unix:/run/licorne,dns:///b:2", ("unix:/run/licorne", "dns:///b:2")),
    ],
)
def test_a_target_may_be_a_list(target: Any, addresses: tuple[str, ...]) -> None:
    """Addresses are separated by commas, or given as a list, or both, and each counts once."""
    assert addresses_of(target) == addresses


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "target is '': it must be host:port"),
        ("a:1,,b:2", "target is '', within 'a:1,,b:2': it must be host:port"),
        ("a:1,b:x", "target is 'b:x', within 'a:1,b:x': it must be host:port"),
        (["a:1", "b:70000"], "target is 'b:70000', within ['a:1', 'b:70000']: it must be host:port"),
        ("b:0", "target is 'b:0': it must be host:port"),
        ("http://a:1", "target is 'http://a:1': it must be host:port"),
        ("a 1", "target is 'a 1': it must be host:port"),
        ("1:2:3", "target is '1:2:3': it must be host:port"),
        ("unix:", "target is 'unix:': it must be host:port"),
        ([], "target is empty: it must name an address, host:port"),
    ],
)
def test_a_bad_address_is_named(target: Any, said: str) -> None:
    """All clients refuse an invalid address before they connect."""
    for client in (lambda: Client(target, rm_id="rm1"), lambda: State(target), lambda: Admin(target)):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            client()


@pytest.mark.parametrize("target", [7070, None, ["a:1", 7070], b"a:1"])
def test_a_target_of_another_type_is_refused(target: Any) -> None:
    """The error describes a valid target."""
    with pytest.raises(TypeError, match="must be host:port, or a list of such texts"):
        Client(target, rm_id="rm1")


def test_the_order_of_addresses() -> None:
    """A round begins with the address of the last welcome, and has every address once."""
    addresses = Addresses(["a:1", "b:1"])
    assert addresses.failed(0.0, answered=True) is False
    assert addresses.current == "b:1"
    addresses.welcomed(["c:1", "a:1", "d:1"])
    addresses.lost()
    dialed = [addresses.current]
    for _ in range(4):
        addresses.failed(0.0, answered=True)
        dialed.append(addresses.current)
    assert dialed == ["b:1", "a:1", "c:1", "d:1", "b:1"]


def test_the_client_waits_after_a_whole_round_only() -> None:
    """Each server is tried as often as if the client knew no other one, and not later."""
    addresses = Addresses(["a:1", "b:1", "c:1"])
    at_once = [addresses.failed(0.0, answered=False) for _ in range(6)]
    assert at_once == [True, True, False, True, True, False]
    assert addresses.current == "a:1"


def test_an_address_without_a_server_is_skipped() -> None:
    """An address that does not answer does not delay others, and is tried again later."""
    addresses = Addresses(["a:1", "b:1", "c:1"])
    addresses.failed(0.0, answered=False)
    dialed = []
    for now in (1.0, 2.0, 3.0, PASSED_OVER, PASSED_OVER + 1, PASSED_OVER + 2):
        dialed.append(addresses.current)
        assert not addresses.failed(now, answered=True)
    assert dialed == ["b:1", "c:1", "b:1", "c:1", "a:1", "b:1"]


def test_a_failure_after_a_redirect_returns_to_the_redirecting_server() -> None:
    """After a failed redirect the redirecting server is next; a welcome there makes its address the first."""
    addresses = Addresses(["a:1", "b:1"])
    addresses.redirected("c:1")
    addresses.redirected("d:1")
    assert addresses.failed(0.0, answered=False) is False
    assert addresses.current == "a:1"
    addresses.redirected("d:1")
    addresses.welcomed([])
    addresses.lost()
    assert addresses.known() == ["d:1", "a:1", "b:1"]


def test_a_server_that_is_about_to_stop_is_tried_last() -> None:
    """The other addresses, if there are any, are tried first."""
    addresses = Addresses(["a:1"])
    addresses.welcomed([])
    addresses.left(0.0)
    assert addresses.current == "a:1"
    addresses.welcomed(["b:1", "c:1"])
    addresses.left(0.0)
    assert addresses.current == "b:1"
    addresses.failed(0.0, answered=True)
    addresses.failed(0.0, answered=True)
    assert addresses.current == "a:1"


def test_addresses_from_servers_are_bounded_and_checked() -> None:
    """Of many addresses from the server the first are stored, and those not of the form host:port dropped."""
    addresses = Addresses(["a:1"])
    addresses.tell(f"m{number}:1" for number in range(10**6))
    assert addresses.known() == ["a:1", *(f"m{number}:1" for number in range(MOST_TOLD))]
    odd = ["unix:/run/x", "dns:///b:1", "b", "b:1,c:1", "b:1 ", "x" * LONGEST_TOLD + ":1", "", "[::1]:1"]
    addresses.tell(odd)
    assert addresses.known() == ["a:1", "[::1]:1"]


def test_a_stranger_at_an_address_from_servers_is_forgotten() -> None:
    """Only an address that servers alone have named may belong to a stranger."""
    addresses = Addresses(["a:1"])
    addresses.welcomed(["b:1"])
    addresses.lost()
    assert not addresses.refused()
    addresses.redirected("b:1")
    assert not addresses.refused()
    addresses.failed(0.0, answered=True)
    addresses.failed(0.0, answered=True)
    assert addresses.current == "b:1"
    assert addresses.refused()
    assert addresses.known() == ["b:1", "a:1"]


async def test_a_client_of_one_address_uses_one_from_its_server() -> None:
    """The address arrives in the welcome or during the session, and the last list is used."""
    async with scripted(welcomes) as other:

        async def tells(stream: ScriptedStream) -> None:
            await stream.welcome(other_members=[CLOSED])
            await stream.replay()
            await stream.write(number=2, other_members={"addresses": [CLOSED_TOO, other]})
            await stream.read()

        async with scripted(tells) as first, Client(first, rm_id="rm1", retry=QUICK) as rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
            addresses = rm._connection._addresses
            await eventually(lambda: addresses.known() == [first, CLOSED_TOO, other])
            await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 1})])
            await eventually(lambda: rm.stats.replayed == 2)
            assert addresses.current == other


async def test_a_client_takes_the_first_of_its_addresses_with_a_server() -> None:
    """A list needs no server at its first addresses."""
    async with (
        serve() as server,
        Client([CLOSED, CLOSED_TOO, server.target], rm_id="rm1", retry=QUICK) as rm,
    ):
        await asyncio.wait_for(rm.ready(), PATIENCE)
        assert await rm.state.rms()
        async with State(f"{CLOSED},{server.target}") as state:
            assert [one.rm_id for one in await state.rms()] == ["rm1"]


async def test_reads_without_any_server_fail() -> None:
    """With several addresses a call fails in the same way as with one."""
    async with State([CLOSED, CLOSED_TOO]) as state:
        with pytest.raises(ConnectionLost, match="refused"):
            await state.rms()


async def test_the_refusal_of_a_stranger_does_not_end_the_client() -> None:
    """A refusal by a stranger at a server-sent address is not final; the same one at the client's own is."""

    async def refuses(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")

    async def is_away(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "away")

    async with scripted(refuses) as stranger:

        async def tells(stream: ScriptedStream) -> None:
            await stream.welcome(other_members=[stranger])
            await stream.replay()

        async with (
            scripted(tells, is_away, refuses) as target,
            Client(target, rm_id="rm1", retry=QUICK) as rm,
        ):
            with pytest.raises(Unauthorized):
                async for _ in rm.events():
                    pass
            assert rm.stats.streams == 4


async def test_an_address_from_servers_does_not_get_the_token_in_plain_text() -> None:
    """A client with a token and without TLS skips addresses on other machines."""

    async def tells(stream: ScriptedStream) -> None:
        await stream.welcome(other_members=["192.0.2.1:7070", "127.0.0.1:1"])
        await stream.replay()
        await stream.until_goodbye()

    async with scripted(tells) as target, Client(target, rm_id="rm1", token=lambda: "a-token") as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        assert rm._connection._addresses.known() == [target, "127.0.0.1:1"]


async def test_a_cancelled_search_for_a_server_leaves_no_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that is cancelled while it chooses among several addresses closes the opened channels."""
    opened: list[grpc.aio.Channel] = []
    channel = Dialer.channel

    def kept(dialer: Dialer, address: str) -> grpc.aio.Channel:
        opened.append(channel(dialer, address))
        return opened[-1]

    monkeypatch.setattr(Dialer, "channel", kept)
    # Both accept connections, and send nothing.
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        state = State([f"127.0.0.1:{silent.getsockname()[1]}" for silent in (one, other)], timeout=0.4)
        call = asyncio.create_task(state.rms())
        await eventually(lambda: bool(opened))
        await state.close()
        with pytest.raises(Closed):
            await call
    assert {one.get_state() for one in opened} == {grpc.ChannelConnectivity.SHUTDOWN}
