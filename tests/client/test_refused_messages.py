"""Messages that one side refuses: corrupted in transit, or invalid."""

import asyncio

import grpc
import pytest

from licorne import Client, Event, LicorneError, Node, ProtocolError, RegistrationInvalid
from licorne_server.testing import FakeRM, serve
from support.patience import PATIENCE
from support.peers.networks import Garbler, Side
from support.peers.scripted import QUICK, Script, ScriptedStream, listening, scripted, welcomes
from support.peers.shim import eventually
from support.server.reports import read_books

CONFIG = """
partitions:
  - name: default
    queues: [{name: root, submitacl: "*", queues: [{name: default}]}]
"""
MALFORMED = "malformed message"


def refusing(code: grpc.StatusCode, text: str) -> Script:
    """A script that refuses the hello."""

    async def refuse(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(code, text)

    return refuse


@pytest.mark.parametrize("side", Side)
async def test_a_corrupted_message_costs_a_new_stream_only(side: Side) -> None:
    """A corrupted message is sent again on the next stream, and the session continues."""
    async with (
        serve() as server,
        Garbler(server.target) as network,
        FakeRM(network.target, config=CONFIG, retry=QUICK) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("app")
        for number in (1, 2):
            network.garble(side)
            await rm.ask("app", 1)
            await rm.allocated(number)
            await rm.until(lambda n=number: rm.client.stats.resumed == n, "a resumption")  # type: ignore[misc]
        assert network.garbled == 2
        assert rm.client.stats.replayed == 1
        assert (await read_books(server.target)).allocations == rm.allocations


@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, MALFORMED, ProtocolError),
        (grpc.StatusCode.UNIMPLEMENTED, "no such method", ProtocolError),
        (grpc.StatusCode.FAILED_PRECONDITION, "protocol 7", ProtocolError),
        (
            grpc.StatusCode.INVALID_ARGUMENT,
            "registration of RM failed: version is too long",
            RegistrationInvalid,
        ),
    ],
)
async def test_a_second_refusal_of_the_hello_is_final(
    code: grpc.StatusCode, text: str, error: type[LicorneError]
) -> None:
    """After one refused hello the client tries again; a second refusal ends it.

    The error has a hint, unless the refusal has the reason.
    """
    refuse = refusing(code, text)
    async with scripted(refuse, welcomes) as target:
        async with Client(target, rm_id="rm1", retry=QUICK) as rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
        events = [event async for event in rm.events()]
    assert events == []
    async with scripted(refuse, refuse) as target, Client(target, rm_id="rm1", retry=QUICK) as rm:
        with pytest.raises(error, match=text) as raised:
            await asyncio.wait_for(rm.ready(), PATIENCE)
        assert rm.stats.streams == 2
        notes = "".join(getattr(raised.value, "__notes__", ()))
        assert ("what the server logged" in notes and "TLS" in notes) is (error is ProtocolError)


class Refused:
    """Scripts of a server that refuses the node n2 in every request."""

    def __init__(self) -> None:
        """Start without streams."""
        self.number = 0
        """The number of the request with the node."""
        self.tokens: list[str] = []
        """The resume token of each hello."""

    async def at_first(self, stream: ScriptedStream) -> None:
        """Refuse the node after a replay without it."""
        self.tokens.append((await stream.welcome()).hello.resume_token)
        await stream.replay()
        request = await stream.read()
        assert request is not None
        self.number = request.number
        await stream.abort(grpc.StatusCode.INVALID_ARGUMENT, MALFORMED)

    async def resumed(self, stream: ScriptedStream) -> None:
        """Refuse the node in the repeated request."""
        hello = await stream.welcome(resumed=True)
        self.tokens.append(hello.hello.resume_token)
        request = await stream.read()
        assert request is not None
        assert request.number == self.number
        await stream.abort(grpc.StatusCode.INVALID_ARGUMENT, MALFORMED)

    async def replayed(self, stream: ScriptedStream) -> None:
        """Refuse the node in a replay."""
        stream.session = len(self.tokens) + 1
        self.tokens.append((await stream.welcome()).hello.resume_token)
        await stream.read_replay()
        await stream.abort(grpc.StatusCode.INVALID_ARGUMENT, MALFORMED)

    async def relents(self, stream: ScriptedStream) -> None:
        """Accept the node in a replay."""
        stream.session = len(self.tokens) + 1
        self.tokens.append((await stream.welcome()).hello.resume_token)
        assert len(await stream.replay()) == 3
        await stream.until_goodbye()


async def test_a_request_that_is_refused_twice_causes_a_replay() -> None:
    """The session is resumed once; after a second refusal it is given up, and the state replayed."""
    server = Refused()
    scripts = (server.at_first, server.resumed, server.relents)
    async with scripted(*scripts) as target, listening(target) as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        await rm.add_nodes([Node(node_id="n2", capacity={})])
        await eventually(lambda: rm.stats.replayed == 2)
    assert server.tokens == ["", "token", ""]


async def all_events(rm: Client) -> list[Event]:
    """Every event until the client ends; raises the error that ended it."""
    return [event async for event in rm.events()]


async def test_a_request_that_is_always_refused_ends_the_client() -> None:
    """If every replay is refused too, the client ends instead of trying for ever."""
    server = Refused()
    scripts = (server.at_first, server.resumed, server.replayed, server.replayed)
    async with scripted(*scripts) as target, Client(target, rm_id="rm1", retry=QUICK) as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        await rm.add_nodes([Node(node_id="n2", capacity={})])
        await eventually(lambda: len(server.tokens) == 4)
        with pytest.raises(ProtocolError, match=MALFORMED):
            await asyncio.wait_for(all_events(rm), PATIENCE)
    assert server.tokens == ["", "token", "", ""]
