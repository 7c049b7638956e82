"""RMs are only redirected to owners that answer."""

import asyncio

from licorne_server.store.coordination.reach import FRESH_SECONDS, Reach
from support.coordination.kubernetes import HandClock
from support.docs.commands import free_port
from support.peers.shim import eventually


async def test_a_listening_member_answers() -> None:
    """One connection serves concurrent checks, and another one later checks."""
    connections = 0

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    clock = HandClock()
    reach = Reach(6.0, clock)
    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answers = await asyncio.gather(*(reach.may_answer(f"127.0.0.1:{port}") for _ in range(50)))
        assert all(answers)
        assert await reach.may_answer(f"127.0.0.1:{port}")
        clock.now += FRESH_SECONDS
        assert await reach.may_answer(f"127.0.0.1:{port}")
        await eventually(lambda: connections == 2)


async def test_a_dead_member_does_not_answer_until_its_lease_proves_it_alive() -> None:
    """After failures for longer than a lease the member must be alive, and only unreachable from here."""
    clock = HandClock()
    reach = Reach(6.0, clock)
    address = f"127.0.0.1:{free_port()}"
    assert not await reach.may_answer(address)
    clock.now += 6.0
    assert not await reach.may_answer(address)
    clock.now += 0.1
    assert await reach.may_answer(address)


async def test_an_unknown_address_does_not_answer() -> None:
    """A name that cannot be resolved is no error."""
    assert not await Reach(6.0, HandClock()).may_answer("no-such-host.invalid:7070")
