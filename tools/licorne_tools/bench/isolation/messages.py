"""Attacks with the largest messages."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc

from licorne.v1.session_pb2 import UpdateRequest
from licorne_server.wire.caps import MAX_ITEM_BYTES, MAX_ITEMS, MAX_MESSAGE_BYTES
from licorne_tools.bench import workload
from licorne_tools.bench.driver import OPTIONS, UPDATE_ALLOCATION, BenchError, BenchRm, RawStream
from licorne_tools.bench.isolation.attack import BATCH, RM, Act, Site
from licorne_tools.bench.scenarios import Scenario
from licorne_tools.bench.session_rm import SessionRm

ROUNDS = 20
SESSION_RM = f"{RM}-session"
ROOM = 64
"""Bytes reserved for the fixed parts of a message."""
ITEM_OF_MANY = 255 * 1024
PATIENCE = 600.0
"""Timeout in seconds for the server's answer to a message, long enough for a busy machine."""
UPDATE_APPLICATION = "/si.v1.Scheduler/UpdateApplication"
UPDATE_NODE = "/si.v1.Scheduler/UpdateNode"


def varint(number: int) -> bytes:
    """A number in the wire format of Protobuf."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def nested(field: int, content: bytes) -> bytes:
    """A field that contains a message or a text."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def zeros(field: int, size: int) -> bytes:
    """A repeated numeric field: as many zeros as fit into `size` bytes."""
    return filled(varint(field << 3) + b"\0", size)


def empties(field: int, size: int) -> bytes:
    """A repeated field: as many empty messages or texts as fit into `size` bytes."""
    return filled(nested(field, b""), size)


def filled(one: bytes, size: int) -> bytes:
    """An encoded field, repeated as often as it fits into `size` bytes."""
    return one * (size // len(one))


def si_messages(site: Site) -> list[tuple[str, bytes]]:
    """Methods and messages; the server refuses each message or all its items."""
    whole = site.part(MAX_MESSAGE_BYTES) - ROOM
    item = site.part(MAX_ITEM_BYTES) - ROOM
    some = min(ITEM_OF_MANY, item)
    name = nested(3, RM.encode())
    return [
        # An allocation with unknown fields; several such allocations.
        (UPDATE_ALLOCATION, name + nested(4, zeros(7, item))),
        (UPDATE_ALLOCATION, name + filled(nested(4, zeros(7, some)), whole)),
        # Empty allocations: too many, then as many as allowed; releases.
        (UPDATE_ALLOCATION, name + empties(4, whole)),
        (UPDATE_ALLOCATION, name + empties(4, 2 * site.part(MAX_ITEMS) - ROOM)),
        (UPDATE_ALLOCATION, name + nested(2, empties(1, whole))),
        # Tags and amounts of an allocation.
        (UPDATE_ALLOCATION, name + nested(4, empties(2, item))),
        (UPDATE_ALLOCATION, name + nested(4, nested(5, empties(1, item)))),
        # Groups of an application; attributes of a node.
        (UPDATE_APPLICATION, name + nested(1, nested(4, empties(2, item)))),
        (UPDATE_NODE, nested(2, RM.encode()) + nested(1, empties(3, item))),
    ]


def session_messages(site: Site) -> list[bytes]:
    """Messages of a session: an answer to a predicate check with as many refusals as fit."""
    refusals = empties(2, site.part(MAX_ITEM_BYTES) - ROOM)
    field = UpdateRequest.DESCRIPTOR.fields_by_name["predicate_answers"].number
    return [nested(field, nested(1, refusals))]


@asynccontextmanager
async def largest(site: Site) -> AsyncIterator[Act]:
    """Messages of up to 8 MiB with up to four million fields, of ten kinds in turn."""
    shape = Scenario("", "", nodes=1)
    config = workload.configuration(shape)
    kinds = si_messages(site)
    answers = session_messages(site)
    async with (
        BenchRm(site.target, RM, BATCH) as rm,
        grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel,
    ):
        await rm.register(config)

        async def act() -> None:
            for _ in range(site.part(ROUNDS)):
                for method, message in kinds:
                    await tried(site, sent(channel, method, message))
                for message in answers:
                    await tried(site, answered(site, config, message))

        yield act


async def tried(site: Site, sending: Coroutine[Any, Any, None]) -> None:
    """Run `sending`, which sends a message and waits until the server has processed it."""
    try:
        async with asyncio.timeout(PATIENCE):
            await sending
    except (grpc.aio.AioRpcError, BenchError):
        site.refused += 1
    site.acts += 1


async def sent(channel: grpc.aio.Channel, method: str, message: bytes) -> None:
    """Send a message of si.v1 on a new stream, and read the stream to its end."""
    call: RawStream = channel.stream_stream(method)()
    await call.write(message)
    await call.done_writing()
    async for _ in call:
        pass


async def answered(site: Site, config: str, message: bytes) -> None:
    """Send a message of a session, then an ask; wait until the ask is placed."""
    shape = Scenario("", "", nodes=1)
    async with SessionRm(site.target, SESSION_RM) as rm:
        await rm.open(config, workload.nodes(shape), workload.applications(shape), batch=BATCH, asked=True)
        behind = workload.session_requests(workload.asks(shape), BATCH)
        await rm.place([message, *behind], shape.pods)
