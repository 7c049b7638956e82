"""RMs as `State` lists them, and `Admin.ForgetRm`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2 import ForgetRmRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.values.rm_caps import RmCaps
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.testing import VirtualClock
from licorne_server.testing.serving import START
from support.peers.shim import RawSession, Shim, ask, connected, hang_up, new_allocations, serving
from support.peers.tls import Bearing

Refusal = tuple[grpc.StatusCode, str, str]


async def forget(channel: Any, rm_id: str, *, force: bool = False) -> None:
    """Have an RM forgotten."""
    await AdminStub(channel).ForgetRm(ForgetRmRequest(rm_id=rm_id, force=force))


async def refused(channel: Any, rm_id: str, *, force: bool = False) -> Refusal:
    """The code, text and reason of the refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await forget(channel, rm_id, force=force)
    reason = ""
    status = rpc_status.from_call(error.value)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            reason = info.reason
    return error.value.code(), error.value.details() or "", reason


async def test_a_connected_rm_is_not_forgotten(server: Server, channel: grpc.aio.Channel) -> None:
    """While a stream is open the call is refused, even with force, and the RM continues."""
    session = RawSession(channel)
    call, _ = await session.begin()
    for force in (False, True):
        assert await refused(channel, "rm", force=force) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "RM rm is connected, with streams open: Session.Update",
            "RM_CONNECTED",
        )
    await session.replay(call)
    assert server.scheduler.views.partitions()[0].nodes == 1
    await hang_up(server, call)
    await forget(channel, "rm")
    assert server.rms.find("rm") is None
    assert not server.scheduler.views.rms()


async def test_an_rm_with_running_allocations_is_forgotten_with_force_only(
    server: Server, channel: grpc.aio.Channel, shim: Shim
) -> None:
    """With force the RM is removed with all its objects."""
    calls = await shim.set_up()
    await shim.ask(calls[0], ask("k"))
    await new_allocations(calls[0], 1)
    await hang_up(server, *calls)
    assert await refused(channel, "rm") == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "RM rm has 1 running allocations: say force to forget them too",
        "RM_HAS_ALLOCATIONS",
    )
    await forget(channel, "rm", force=True)
    assert not server.scheduler.views.partitions()
    await shim.set_up()


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Any]:
    """Settings with tokens for the RMs `rm` and `other`, and for an operator."""
    for name in ("rm", "other", "operator"):
        (tmp_path / name).write_text(f"token-of-{name * 4}\n")
    return {
        "rm_tokens": {name: (tmp_path / name,) for name in ("rm", "other")},
        "operator_tokens": (tmp_path / "operator",),
    }


@pytest.fixture
async def guarded(tokens: dict[str, Any]) -> AsyncIterator[Server]:
    """A server that requires these tokens."""
    async with serving(**tokens) as server:
        yield server


def bearing(channel: grpc.aio.Channel, name: str) -> Any:
    """The same connection with the token of that name."""
    return Bearing(channel, f"Bearer token-of-{name * 4}")


async def test_only_operators_forget_an_rm(guarded: Server) -> None:
    """Another RM's identity does not see the RM, and no RM may remove one, not even itself."""
    async with connected(guarded) as channel:
        await Shim(bearing(channel, "rm"), "rm").register()
        for name, seen in (("rm", ["rm"]), ("operator", ["rm"]), ("other", [])):
            answer = await StateStub(bearing(channel, name)).ListRms(pb.ListRmsRequest())
            assert [rm.rm_id for rm in answer.rms] == seen
        for name in ("rm", "other"):
            code, text, _ = await refused(bearing(channel, name), "rm", force=True)
            assert (code, text) == (
                grpc.StatusCode.PERMISSION_DENIED,
                "this token is no operator's",
            )
        await forget(bearing(channel, "operator"), "rm")
        assert guarded.rms.find("rm") is None


async def test_an_rm_is_listed_with_its_connection_and_usage() -> None:
    """Connection, service, times, counts and caps of each RM are listed, in order of their ids."""
    clock = VirtualClock()
    bounds = RmBounds(each=RmCaps(nodes=7), forget_after=0)
    async with serving(clock=clock, rms=bounds) as server, connected(server) as channel:
        await Shim(channel, "b").set_up(nodes=3)
        await clock.advance(5)
        await RawSession(channel, "c").begin()
        await Shim(channel, "a").register(version="1.2", policyGroup="queues")
        answer = await StateStub(channel).ListRms(pb.ListRmsRequest())
    a, b, c = answer.rms
    assert [rm.rm_id for rm in (a, b, c)] == ["a", "b", "c"]
    assert [(rm.connected, rm.over_session) for rm in (a, b, c)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    start = round(START * 10**9)
    later = start + 5 * 10**9
    assert [(rm.registered_time, rm.since) for rm in (a, b, c)] == [
        (later, later),
        (start, start),
        (later, later),
    ]
    assert (a.version, a.policy_group, a.session, list(a.partitions)) == (
        *("1.2", "queues", 1),
        ["[a]default"],
    )
    assert (b.counts.partitions, b.counts.nodes, b.counts.applications) == (1, 3, 1)
    assert b.caps.nodes == 7
    assert b.caps.asks == RmCaps().asks


async def test_the_list_of_rms_is_paged(server: Server, channel: grpc.aio.Channel) -> None:
    """Pages are contiguous, and the last one has no token."""
    for name in ("c", "a", "b"):
        await Shim(channel, name).register()
    request = pb.ListRmsRequest(page_size=2)
    first = await StateStub(channel).ListRms(request)
    request.page_token = first.next_page_token
    second = await StateStub(channel).ListRms(request)
    assert [rm.rm_id for rm in (*first.rms, *second.rms)] == ["a", "b", "c"]
    assert not second.next_page_token
