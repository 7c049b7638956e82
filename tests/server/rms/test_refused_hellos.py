"""A hello that is refused leaves the session that is open alone (DESIGN § 3)."""

from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_core.messages.commands import RefuseNewWork
from licorne_core.values.rm_caps import Shortage
from licorne_server.serving.app import Server
from support.peers.shim import Call, RawSession, ask

ASK = si.AllocationRequest(allocations=[ask("k")])


async def placed_keys(call: Call, session: RawSession) -> list[str]:
    """Keys of the next new allocations."""
    response = await session.until(call, "allocations")
    return [item.allocationKey for item in response.allocations.new]


REFUSED_HELLOS: dict[str, tuple[dict[str, Any], str]] = {
    "no registration": ({"registration": None}, "the session cannot be resumed"),
    "a wrong token": ({"registration": None, "token": "x"}, "the session cannot be resumed"),
    "another protocol": ({"protocol": 2}, "protocol 2 is not spoken here"),
    "no instance": ({"instance": 0}, "instance is 0"),
    "another rmID": (
        {"registration": si.RegisterResourceManagerRequest(rmID="other")},
        "registration of RM failed: rmID is other",
    ),
    "a bad configuration": (
        {"registration": si.RegisterResourceManagerRequest(config="partitions: 7")},
        "registration of RM failed",
    ),
}


@pytest.mark.parametrize("which", REFUSED_HELLOS)
async def test_refused_hello_leaves_the_open_stream_alone(session: RawSession, which: str) -> None:
    """Whatever a newer instance is refused for, the session that is open goes on."""
    fields, reason = REFUSED_HELLOS[which]
    call, _ = await session.begin(instance=1)
    await session.replay(call)
    refused = await session.hello(**({"instance": 2} | fields))
    _, text = await refused.ending()
    assert text.startswith(reason)
    await session.send(call, allocations=ASK)
    assert await placed_keys(call, session) == ["k"]


async def test_hello_without_memory_leaves_the_open_stream_alone(server: Server, session: RawSession) -> None:
    """So it is where the core is what refuses the registration."""
    call, _ = await session.begin(instance=1)
    await session.replay(call)
    await server.engine.submit(RefuseNewWork(shortage=Shortage.ALL, reason="all is taken"))
    refused = await session.hello(instance=2)
    assert (await refused.ending())[1].startswith("registration of RM failed: rmID: all is taken")
    await server.engine.submit(RefuseNewWork(shortage=Shortage.NONE, reason=""))
    await session.send(call, allocations=ASK)
    assert await placed_keys(call, session) == ["k"]
