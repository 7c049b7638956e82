"""Streams of RMs passed to the owner: their ends, changes of the owner, identities, packing."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.services.members import packing, passing
from licorne_server.store.coordination.secret import METADATA
from licorne_server.transport.loop import unfinished
from support.members import Seat
from support.patience import PATIENCE
from support.peers.members import SECRET, Deployment, members
from support.peers.shim import Call, RawSession, Shim, ask, connected, eventually, new_allocations, node
from support.peers.tls import Bearing, connected_as, tls

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
PASS = "/licorne.members.Members/Pass"
TOKEN = "token-of-rm-aaaaaaaaaaaa"


def rm_on(server: Server) -> Any:
    """The server's record of the RM."""
    found = server.rms.find("rm")
    assert found is not None
    return found


async def opened(shim: Shim) -> tuple[Call, Call, Call]:
    """The three streams of a registered RM, after the first messages of each."""
    calls = await shim.set_up()
    await shim.ask(calls[0], ask("first", vcore=1))
    assert set(await new_allocations(calls[0], 1)) == {"first"}
    return calls


async def test_the_owner_uses_the_real_caller(two: Deployment, shim: Shim, server: Server) -> None:
    """Quotas and logs of the owner have the host that called the other member, which has no RM."""
    await shim.set_up()
    assert server.rms.peers() == {"rm": "127.0.0.1"}
    assert all(stream.peer.startswith("ipv4:127.0.0.1:") for stream in rm_on(server).streams.values())
    assert not two.servers["a"].rms.all()


async def test_a_cancelled_stream_ends_at_the_owner(shim: Shim, server: Server) -> None:
    """A disconnected caller is also disconnected at the owner, for each of its streams separately."""
    allocations, _, _ = await opened(shim)
    rm = rm_on(server)
    assert len(rm.streams) == 3
    allocations.call.cancel()
    await eventually(lambda: len(rm.streams) == 2)


async def test_a_half_closed_stream_is_processed_to_its_end(shim: Shim, server: Server) -> None:
    """Asks that were sent before the half-close are placed, and the stream ends with OK."""
    allocations, _, _ = await shim.set_up()
    await shim.ask(allocations, *(ask(f"k{number}", vcore=1) for number in range(10)))
    await allocations.half_close()
    assert (await allocations.ending())[0] is grpc.StatusCode.OK
    [report] = server.scheduler.views.partitions(RmId("rm"))
    assert report.allocations + report.pending_asks == 10


async def test_an_rm_of_a_killed_owner_is_served_again(two: Deployment, shim: Shim) -> None:
    """Calls of an RM end with UNAVAILABLE until the lease ends; then the next member serves it."""
    calls = await opened(shim)
    await two.kill("b")
    for call in calls:
        assert (await call.ending())[0] is UNAVAILABLE
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await shim.register()
    assert refused.value.code() is UNAVAILABLE
    assert "member b does not answer" in (refused.value.details() or "")
    two.lose("b")
    two.home = "a"
    allocations, _, _ = await shim.set_up()
    await shim.ask(allocations, ask("k"))
    assert set(await new_allocations(allocations, 1)) == {"k"}
    assert [rm.rm_id for rm in two.servers["a"].rms.all()] == ["rm"]


async def test_effects_of_a_previous_owner_are_dropped(two: Deployment, shim: Shim) -> None:
    """The decisions of an owner that does not know yet that it was replaced do not reach the RM."""
    allocations, _, _ = await opened(shim)
    two.give("rm", "a")
    await shim.ask(allocations, ask("k"))
    assert await drained(allocations) == (UNAVAILABLE, "RM rm is served by another member now", [])


async def test_idle_streams_end_when_the_owner_changes(two: Deployment, shim: Shim) -> None:
    """A silent stream ends as well, except for a newer epoch of the same owner."""
    calls = await opened(shim)
    two.give("rm", "b")
    await shim.ask(calls[0], ask("k"))
    assert set(await new_allocations(calls[0], 1)) == {"k"}
    two.give("rm", "a")
    for call in calls:
        assert (await call.ending())[0] is UNAVAILABLE


@pytest.mark.parametrize(("seconds", "code"), [(PATIENCE, grpc.StatusCode.OK), (0.0, UNAVAILABLE)])
async def test_late_messages_of_a_member_that_has_left_are_delivered(
    two: Deployment, shim: Shim, monkeypatch: pytest.MonkeyPatch, seconds: float, code: grpc.StatusCode
) -> None:
    """Messages that arrive shortly after a member has left are still delivered."""
    monkeypatch.setattr(passing, "LAST_SECONDS", seconds)
    allocations, _, _ = await opened(shim)
    ownership = two.servers["a"].ownership
    assert isinstance(ownership, Seat)
    ownership.table = without_b = Deployment()
    without_b.add(two.member("a"))
    without_b.rms = dict(two.rms)
    if seconds:
        await shim.ask(allocations, ask("last", vcore=1))
        assert set(await new_allocations(allocations, 1)) == {"last"}
        await allocations.half_close()
    assert (await allocations.ending())[0] is code


async def drained(call: Call) -> tuple[grpc.StatusCode, str, list[Any]]:
    """The end of a stream, and the messages before."""
    messages = []
    try:
        while (message := await call.read()) is not None:
            messages.append(message)
    except grpc.aio.AioRpcError:
        pass
    return *(await call.ending()), messages


async def test_messages_arrive_when_the_passing_member_stops(
    two: Deployment, shim: Shim, server: Server
) -> None:
    """A member that passes streams on ends them in order, after all messages of the owner."""
    allocations, _, _ = await opened(shim)
    await shim.ask(allocations, *(ask(f"k{number}", vcore=1) for number in range(100)))

    def placed() -> bool:
        [report] = server.scheduler.views.partitions(RmId("rm"))
        return report.allocations == 101

    await eventually(placed)
    stopping = asyncio.create_task(two.servers["a"].stop())
    code, text, messages = await drained(allocations)
    assert (code, text) == (UNAVAILABLE, "the server is about to stop")
    assert sum(len(message.new) for message in messages) == 100
    await stopping


async def test_the_status_of_a_stopped_owner_is_passed_on(shim: Shim, server: Server) -> None:
    """The status of a drain at the owner reaches the RM unchanged."""
    calls = await opened(shim)
    stopping = asyncio.create_task(server.stop())
    for call in calls:
        assert await call.ending() == (UNAVAILABLE, "the server is about to stop")
    await stopping


@pytest.mark.parametrize("first", ["a", "b", "ab", "ba"])
async def test_a_passed_session_ends_with_a_goodbye(tmp_path: Path, first: str) -> None:
    """A worker that stops asks the RM for its goodbye, and processes the RM's last request."""
    async with members("a", "b", sockets=tmp_path, drain=60.0) as deployment:
        deployment.home = "b"
        async with connected(deployment.servers["a"]) as channel:
            session = RawSession(channel)
            call, _ = await session.begin()
            await session.replay(call, asks={"k": "app"})
            await session.until(call, "allocations")
            rm = rm_on(deployment.servers["b"])
            stopping = [asyncio.create_task(deployment.servers[name].stop()) for name in first]
            notice = await session.until(call, "drain")
            assert notice.drain.reason == "the server is about to stop"
            # By now each worker has asked, and the RM has received one question.
            await session.send(call, nodes=si.NodeRequest(nodes=[node("late", vcore=1)]))
            assert [answer.nodeID for answer in (await session.until(call, "nodes")).nodes.accepted] == [
                "late"
            ]
            await session.send(call, goodbye=sp.Goodbye())
            kinds = []
            while (message := await call.read()) is not None:
                kinds.append(message.WhichOneof("message"))
            assert "drain" not in kinds
            assert (await call.ending())[0] is grpc.StatusCode.OK
            assert rm.session.received == session.number
            await asyncio.gather(*stopping)


async def test_a_passed_call_is_not_passed_on_again() -> None:
    """A passed registration that finds no owner here is UNAVAILABLE."""
    async with members("a", "b", "c") as three, connected(three.servers["a"]) as channel:
        # b has newer data than a: the RM belongs to c.
        ownership = three.servers["b"].ownership
        assert isinstance(ownership, Seat)
        ownership.table = newer = Deployment()
        newer.members, newer.rms = dict(three.members), dict(three.rms)
        newer.give("rm", "c")
        three.give("rm", "b")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Shim(channel).register()
        assert refused.value.code() is UNAVAILABLE
        assert refused.value.details() == "RM rm is not served by this member"
        assert not three.servers["c"].rms.all()


@pytest.mark.slow
async def test_single_item_messages_are_joined_for_the_owner(
    two: Deployment, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 asks in messages of their own reach the owner in less than half as many."""
    # A slow machine needs this time for a burst.
    monkeypatch.setattr(packing, "RUSH_SECONDS", 5.0)
    monkeypatch.setattr(packing, "GATHER_SECONDS", 0.05)
    with capture_logs() as lines:
        allocations, _, _ = await shim.set_up(vcore=1_000_000)

        async def send() -> None:
            for number in range(10_000):
                await shim.ask(allocations, ask(f"k{number}", vcore=1))

        sending = asyncio.create_task(send())
        assert len(await new_allocations(allocations, 10_000)) == 10_000
        await sending
        await two.servers["a"].stop()
        await eventually(lambda: any(line["event"] == "member disconnected" for line in lines))
    [line] = [line for line in lines if line["event"] == "member disconnected"]
    assert line["messages_read"] < 5_000


async def test_an_unread_stream_does_not_block_another(two: Deployment, shim: Shim) -> None:
    """While one RM reads none of its allocations, another passed one gets all of its own."""
    options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.use_local_subchannel_pool", 1)]
    where = two.servers["a"].grpc_address
    async with grpc.aio.insecure_channel(where, options=options) as channel:
        stalled = Shim(channel, "stalled")
        unread, _, _ = await stalled.set_up(vcore=1_000_000)
        key = "k" * 200
        for part in range(40):
            await stalled.ask(unread, *(ask(f"{key}-{part}-{number}", vcore=1) for number in range(100)))
        allocations, _, _ = await shim.set_up(vcore=1_000_000)
        for number in range(50):
            await shim.ask(allocations, ask(f"k{number}", vcore=1))
            assert set(await new_allocations(allocations, 1)) == {f"k{number}"}
        assert len(await new_allocations(unread, 4000)) == 4000


@pytest.mark.transport
async def test_messages_of_members_have_no_bound_of_strangers(
    two: Deployment, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member with the secret may send incomplete messages beyond the room for strangers."""
    monkeypatch.setattr(unfinished, "EACH", 1000)
    allocations, _, _ = await shim.set_up(vcore=1_000_000)
    await shim.ask(allocations, ask("first", vcore=1))
    assert set(await new_allocations(allocations, 1)) == {"first"}
    key = "k" * 200
    await shim.ask(allocations, *(ask(f"{key}-{number}", vcore=1) for number in range(1000)))
    assert len(await new_allocations(allocations, 1000)) == 1000


async def test_sessions_are_redirected(session: RawSession, server: Server) -> None:
    """A session on another member gets the address of the owner."""
    call, response = await session.begin()
    assert response.welcome.redirect == server.grpc_address
    assert (await call.ending())[0] is grpc.StatusCode.OK


@pytest.mark.parametrize("metadata", [(), ((METADATA, "other"),), ((METADATA, SECRET), (METADATA, SECRET))])
async def test_calls_are_passed_on_with_the_secret_only(
    channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]
) -> None:
    """A stream between members without the one right secret is refused."""
    call: Any = channel.stream_stream(PASS)(metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_members_with_different_secrets_refuse_each_other() -> None:
    """The RM gets UNAVAILABLE, as the fault is not its own."""
    async with members("a", "b", secrets={"a": "another"}) as deployment:
        deployment.home = "b"
        async with connected(deployment.servers["a"]) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await Shim(channel).register()
    assert refused.value.code() is UNAVAILABLE
    assert "PERMISSION_DENIED" in (refused.value.details() or "")


async def test_tokens_are_checked_by_the_first_member(tmp_path: Path) -> None:
    """The owner uses the identity found by the other member, and the token is not passed on."""
    file = tmp_path / "rm"
    file.write_text(f"{TOKEN}\n")
    async with members("a", "b", rm_tokens={"rm": (file,)}) as deployment:
        deployment.home = "b"
        async with connected(deployment.servers["a"]) as channel:
            bearing: Any = Bearing(channel, f"Bearer {TOKEN}")
            await Shim(bearing).set_up()
            for shim, code in (
                (Shim(bearing, "other"), grpc.StatusCode.PERMISSION_DENIED),
                (Shim(channel), grpc.StatusCode.UNAUTHENTICATED),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await shim.register()
                assert refused.value.code() is code
        [peer] = deployment.servers["b"].rms.peers().values()
        assert peer not in ("", "127.0.0.1")


async def test_members_use_tls_with_their_own_certificates() -> None:
    """With mutual TLS the members' connection has it too, and the RM keeps the name in its certificate."""
    identities = {"rm": frozenset({"spiffe://test/rm"})}
    async with members("a", "b", tls=tls(), rm_identities=identities) as deployment:
        deployment.home = "b"
        async with connected_as("rm", deployment.servers["a"]) as channel:
            allocations, _, _ = await Shim(channel).set_up()
            await allocations.send(si.AllocationRequest(rmID="rm", allocations=[ask("k")]))
            assert set(await new_allocations(allocations, 1)) == {"k"}
        assert deployment.servers["b"].rms.peers() == {"rm": "certificate spiffe://test/rm"}
