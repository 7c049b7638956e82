"""A server and a connection to it, for the tests over the wire."""

import resource
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.reads import members as reads
from licorne_server.services.members import forwarding, passing
from licorne_server.telemetry.logs import levels
from licorne_server.testing import VirtualClock
from support.patience import PATIENCE
from support.peers.shim import Call, RawSession, Shim, ask, connected, new_allocations, serving

if TYPE_CHECKING:
    from licorne.v1.admin_pb2_grpc import AdminAsyncStub
    from licorne.v1.state_pb2_grpc import StateAsyncStub

WAITS = (
    (passing, "CONNECT_SECONDS"),
    (forwarding, "ANSWER_SECONDS"),
    (reads, "HEAD_SECONDS"),
    (reads, "WHOLE_SECONDS"),
)
"""The waits of members for each other, which share a busy processor here."""


@pytest.fixture(autouse=True)
def patient_members() -> Iterator[None]:
    """Let members count as lost only after a long time; tests of losses set their own times."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in WAITS:
            patch.setattr(module, name, PATIENCE)
        yield


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that the test moves."""
    return VirtualClock()


@pytest.fixture
def usual_levels() -> Iterator[None]:
    """Restore the log levels of the process after the test."""
    yield
    levels().begin("info")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection to it."""
    async with connected(server) as channel:
        yield channel


@pytest.fixture
def state(channel: grpc.aio.Channel) -> "StateAsyncStub":
    """A stub of `State`."""
    return StateStub(channel)


@pytest.fixture
def admin(channel: grpc.aio.Channel) -> "AdminAsyncStub":
    """A stub of `Admin`."""
    return AdminStub(channel)


@pytest.fixture
def shim(channel: grpc.aio.Channel) -> Shim:
    """An RM over `si.v1`."""
    return Shim(channel)


@pytest.fixture
def session(channel: grpc.aio.Channel) -> RawSession:
    """An RM over `Session.Update`."""
    return RawSession(channel)


@pytest.fixture
async def neighbour(server: Server) -> AsyncIterator[Callable[[], Any]]:
    """Another RM, and a check that it is still scheduled and otherwise unchanged."""
    async with connected(server) as channel:
        shim = Shim(channel, "neighbour")
        calls = await shim.set_up(vcore=1_000_000)
        placed = 0

        async def is_fine() -> None:
            nonlocal placed
            placed += 1
            await shim.ask(calls[0], ask(f"mine-{placed}"))
            assert len(await new_allocations(calls[0], 1)) == 1
            [report] = server.scheduler.views.partitions(RmId(shim.rm_id))
            assert (report.nodes, report.allocations, report.pending_asks) == (1, placed, 0)

        await is_fine()
        yield is_fine
        await is_fine()


@pytest.fixture
async def streams(shim: Shim, neighbour: Any) -> tuple[Call, Call, Call]:
    """The RM's streams, for allocations, applications and nodes."""
    return await shim.set_up()


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """Limits the size of files inside a block, as on a full disk.

    The limit ends before pytest reports the test, perhaps to a file.
    """

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
