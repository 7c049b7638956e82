"""A hello that is refused leaves the session that is open alone (DESIGN § 3)."""

from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import RefuseNewWork
from licorne_core.values.rm_caps import MemoryShortage
from licorne_server.assembly.server import Server
from support.peers.shim import Call, RawSession, ask

ASK = si.AllocationRequest(allocations=[ask("k")])


async def placed_keys(call: Call, session: RawSession) -> list[str]:
    """Keys of the next new allocations."""
    response = await session.until(call, "allocations")
    return [item.allocationKey for item in response.allocations.new]


REFUSED_HELLOS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no registration": (
        {"registration": None},
        "FAILED_PRECONDITION",
        "the session cannot be resumed, and the hello has no registration",
    ),
    "a wrong token": ({"registration": None, "token": "x"}, "FAILED_PRECONDITION", "the session cannot be"),
    "another protocol": (
        {"protocol": 2},
        "FAILED_PRECONDITION",
        "protocol 2 is not spoken here, 1 is",
    ),
    "no instance": ({"instance": 0}, "INVALID_ARGUMENT", "instance is 0: it must rise"),
    "another rmID": (
        {"registration": si.RegisterResourceManagerRequest(rmID="other")},
        "INVALID_ARGUMENT",
        "registration of RM failed: rmID is other, but the hello's rm_id is rm",
    ),
    "a bad configuration": (
        {"registration": si.RegisterResourceManagerRequest(config="partitions: 7")},
        "INVALID_ARGUMENT",
        "registration of RM failed: 1:13: partitions:",
    ),
}


@pytest.mark.parametrize("which", REFUSED_HELLOS)
async def test_refused_hello_leaves_the_open_stream_alone(session: RawSession, which: str) -> None:
    """Whatever the refusal of a newer instance, it gets the reason, and the open session continues."""
    fields, code, reason = REFUSED_HELLOS[which]
    call, _ = await session.begin(instance=1)
    await session.replay(call)
    refused = await session.hello(**({"instance": 2} | fields))
    status, text = await refused.ending()
    assert status.name == code
    assert text.startswith(reason)
    await session.send(call, allocations=ASK)
    assert await placed_keys(call, session) == ["k"]


@pytest.mark.parametrize(
    ("rm_id", "problem"), [("", "rmID is empty"), ("[a]", "rmID must not hold '[' or ']': [a]")]
)
async def test_rm_without_a_proper_id_is_refused(session: RawSession, rm_id: str, problem: str) -> None:
    """The id is judged as in RegisterResourceManager."""
    call = session.open()
    registration = si.RegisterResourceManagerRequest()
    hello = sp.Hello(rm_id=rm_id, protocol=1, instance=1, registration=registration)
    await call.send(sp.UpdateRequest(hello=hello))
    code, text = await call.ending()
    assert (code.name, text) == ("INVALID_ARGUMENT", f"registration of RM failed: {problem}")


async def test_hello_without_memory_leaves_the_open_stream_alone(server: Server, session: RawSession) -> None:
    """The same holds if the core refuses the registration."""
    call, _ = await session.begin(instance=1)
    await session.replay(call)
    await server.engine.submit(RefuseNewWork(shortage=MemoryShortage.ALL, reason="all is taken"))
    refused = await session.hello(instance=2)
    assert (await refused.ending())[1].startswith("registration of RM failed: rmID: all is taken")
    await server.engine.submit(RefuseNewWork(shortage=MemoryShortage.NONE, reason=""))
    await session.send(call, allocations=ASK)
    assert await placed_keys(call, session) == ["k"]
