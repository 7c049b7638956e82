"""The members of a deployment over gRPC: lists, drains, and refusals without coordination."""

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.values.ids import RmId
from licorne_server.store.coordination.ownership import DRAIN
from licorne_server.store.coordination.store import Gone, Member, MemberId
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.store.documents.documents import Document
from support.members import Table, deployment, member, table_of
from support.peers.shim import Shim, connected, serving
from support.peers.tls import Bearing


async def listed(channel: Any) -> pb.ListMembersResponse:
    """All members."""
    answer: pb.ListMembersResponse = await AdminStub(channel).ListMembers(pb.ListMembersRequest())
    return answer


async def drained(channel: Any, name: str, drain: bool = True, why: str = "") -> pb.DrainMemberResponse:
    """Drain a member, or end its drain."""
    request = pb.DrainMemberRequest(member=name, drain=drain, message=why)
    answer: pb.DrainMemberResponse = await AdminStub(channel).DrainMember(request)
    return answer


async def test_members_are_listed_with_their_rms() -> None:
    """Every member lists the same RMs with epochs, a removed member, and RMs without an owner."""
    async with deployment("b", "a") as servers:
        async with connected(servers[0]) as channel:
            await Shim(channel, "rm").register()
        rms = table_of(servers).rms
        rms[RmId("lost")] = Record(rm_id=RmId("lost"), owner=MemberId("former"), epoch=7)
        former = Member(id=MemberId("former"), name="host-9", address="host-9:7070")
        table_of(servers).gone[former.id] = Gone(former, 5.0)
        rms[RmId("free")] = Record(rm_id=RmId("free"), owner=MemberId(""), epoch=9, moved=2.0)
        for server in servers:
            async with connected(server) as channel:
                answer = await listed(channel)
            shown = [
                (one.name, one.state, [(rm.rm_id, rm.epoch) for rm in one.rms]) for one in answer.members
            ]
            assert shown == [
                ("a", "active", []),
                ("b", "active", [("rm", 1)]),
                ("host-9", "gone", [("lost", 7)]),
            ]
            assert [(rm.rm_id, rm.moved) for rm in answer.unowned] == [("free", 2 * 10**9)]
            assert answer.me == server.ownership.me()
            assert answer.members[1].address == servers[0].grpc_address
            assert [one.since for one in answer.members[1:]] == [1000 * 10**9, 5 * 10**9]


async def test_a_drain_is_a_document_in_the_store() -> None:
    """A drain has author, time and reason, and is by name or id; a second one changes nothing."""
    async with deployment("a", "b") as servers, connected(servers[0]) as channel:
        documents = table_of(servers).documents
        assert (await drained(channel, "id-of-b", why="new kernel")).changed
        wish = json.loads(documents[f"{DRAIN}b"].value)
        assert wish["why"] == "new kernel"
        assert wish["time"] == pytest.approx(servers[0].engine.now(), abs=600)
        assert not (await drained(channel, "b")).changed
        one = (await listed(channel)).members[1]
        assert (one.state, one.drained_why, one.drained_by) == ("draining", "new kernel", wish["by"])
        answer = await drained(channel, "b", drain=False)
        assert (answer.changed, answer.name) == (True, "b")
        assert f"{DRAIN}b" not in documents
        assert not (await drained(channel, "b", drain=False)).changed


async def test_the_drain_of_a_removed_member_can_be_ended() -> None:
    """The drain of a removed member can be ended, or else it applies to the next of its name."""
    async with deployment("a") as servers, connected(servers[0]) as channel:
        table_of(servers).documents[f"{DRAIN}old"] = Document(value=b"no JSON", revision=3)
        assert (await drained(channel, "old", drain=False)).changed
        for drain in (True, False):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await drained(channel, "old", drain=drain)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_unavailable_store_is_reported() -> None:
    """A list says that it may be outdated, and a request is refused with UNAVAILABLE."""
    async with deployment("a") as servers, connected(servers[0]) as channel:
        table_of(servers).answers = False
        answer = await listed(channel)
        assert (answer.problem, len(answer.members)) == ("the store does not answer", 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await drained(channel, "a")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_single_server_has_no_members() -> None:
    """Calls to list and to drain members report that there is no coordination."""
    async with serving() as server, connected(server) as channel:
        for call in (listed(channel), drained(channel, "a")):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "--coordination" in str(refused.value.details())


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb"])
async def test_an_invalid_name_of_a_member_is_refused(name: str) -> None:
    """Missing, long and unprintable names are invalid arguments."""
    async with deployment("a") as servers, connected(servers[0]) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await drained(channel, name)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_only_operators_list_and_drain_members(tmp_path: Path) -> None:
    """An RM may neither list nor drain members; each drain leaves a line in the log."""
    for name in ("rm", "operator"):
        (tmp_path / name).write_text(f"token-of-{name}-{'x' * 12}")
    tokens = {"rm_tokens": {"rm": (tmp_path / "rm",)}, "operator_tokens": (tmp_path / "operator",)}
    with capture_logs() as lines:
        async with member(Table(), "a", None, **tokens) as server, connected(server) as channel:
            for name, allowed in (("rm", False), ("operator", True)):
                bearing = Bearing(channel, f"Bearer token-of-{name}-{'x' * 12}")
                for call in (listed(bearing), drained(bearing, "a", why="test")):
                    if allowed:
                        await call
                        continue
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await call
                    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    audited = [line for line in lines if line.get("action") == "drain member"]
    assert [(line["outcome"], line["member"]) for line in audited] == [("NOT_ALLOWED", "a"), ("done", "a")]


async def test_calls_without_the_secret_are_refused() -> None:
    """A call as a member without the secret is refused, and at most one line a minute is logged."""
    async with deployment("a") as [server], connected(server) as channel:
        with capture_logs() as logs:
            for _ in range(5):
                with pytest.raises(grpc.aio.AioRpcError, match="the secret of the deployment is needed"):
                    await channel.stream_stream("/licorne.members.Members/Pass")().read()
    told = [line["times"] for line in logs if line["event"].startswith("not taken for a member")]
    assert told == [1]
