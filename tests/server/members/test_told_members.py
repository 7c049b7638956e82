"""The addresses of other members, which let an RM survive the loss of its own member."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from licorne.v1 import session_pb2 as sp
from licorne_core.values.ids import RmId
from licorne_server.services.members import member_calls
from licorne_server.store.coordination.placing import LONGEST_TOLD, MOST_TOLD, choose, told_to
from licorne_server.store.coordination.store import Member, MemberId, Snapshot
from support.peers.members import Deployment, members
from support.peers.shim import Call, RawSession, connected, eventually


def member(name: str, address: str = "", **fields: object) -> Member:
    """A member at an address of that name."""
    return Member(id=MemberId(name), name=name, address=address or f"{name}:1", **fields)  # type: ignore[arg-type]


def snapshot(*all_of_them: Member) -> Snapshot:
    """A deployment with these members."""
    return Snapshot(members={one.id: one for one in all_of_them})


@asynccontextmanager
async def two() -> AsyncIterator[tuple[Deployment, RawSession]]:
    """Members a and b, and an RM that calls a, which serves it."""
    async with members("a", "b") as deployment, connected(deployment.servers["a"]) as channel:
        yield deployment, RawSession(channel)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let members read the list of members at short intervals."""
    monkeypatch.setattr(member_calls, "LOOK_SECONDS", 0.01)


async def news(call: Call) -> sp.UpdateResponse:
    """The next message about the list of members."""
    while True:
        response: sp.UpdateResponse = await call.next()
        if response.HasField("other_members"):
            return response


async def test_a_welcome_has_the_addresses_of_the_other_members() -> None:
    """A welcome has the addresses that the other members advertise."""
    async with two() as (deployment, session):
        _, response = await session.begin()
        assert list(response.welcome.other_members) == [deployment.member("b").address]


async def test_a_single_server_sends_no_members() -> None:
    """The list is empty, as for a worker, because all workers have the same address."""
    async with members("a") as deployment, connected(deployment.servers["a"]) as channel:
        _, response = await RawSession(channel).begin()
    assert not response.welcome.other_members
    workers = snapshot(member("a", "unix:/run/a"), member("b", "unix:/run/b"))
    assert not told_to(RmId("rm"), workers, MemberId("a"))


async def test_changes_of_members_are_sent_over_the_session() -> None:
    """Added and removed members are sent in numbered messages, each with the whole list."""
    async with two() as (deployment, session):
        call, _ = await session.begin()
        await session.replay(call)
        deployment.add(member("c"))
        first = await news(call)
        assert set(first.other_members.addresses) == {"c:1", deployment.member("b").address}
        deployment.lose("c")
        second = await news(call)
        assert list(second.other_members.addresses) == [deployment.member("b").address]
        assert second.number > first.number > 0


async def test_the_list_after_a_resumption_is_the_present_one() -> None:
    """A list that is sent again after the welcome is followed by the later changes."""
    async with two() as (deployment, session):
        call, response = await session.begin()
        token = response.welcome.resume_token
        await session.replay(call)
        deployment.add(member("c"))
        number = (await news(call)).number
        call.call.cancel()
        server = deployment.servers["a"]
        await eventually(lambda: not server.rms.get("rm", "").connected)
        # No other read follows, so the resumption itself has to send the list.
        for task in server._member_calls._following:
            task.cancel()
        deployment.lose("c")
        call, response = await session.begin(token=token, acknowledged=number - 1)
        assert response.welcome.resumed
        home = deployment.member("b").address
        assert list(response.welcome.other_members) == [home]
        again, last = await news(call), await news(call)
        assert (again.number, "c:1" in again.other_members.addresses) == (number, True)
        assert list(last.other_members.addresses) == [home]


def test_the_list_of_members_is_bounded() -> None:
    """However many members there are, and whatever they advertise, the list is short."""
    longest = "x" * (LONGEST_TOLD - 2) + ":1"
    many = [member(f"m{number}") for number in range(3 * MOST_TOLD)]
    told = told_to(RmId("rm"), snapshot(*many), MemberId("m0"))
    assert len(set(told)) == MOST_TOLD
    found = told_to(RmId("rm"), snapshot(member("a", longest), member("b", f"x{longest}")), MemberId("me"))
    assert found == (longest,)


def test_rms_of_one_member_dial_different_ones_next() -> None:
    """The likely next owner of an RM comes first, and a draining member last."""
    others = [member(name) for name in "bcd"]
    at = snapshot(member("a"), *others, member("e", draining=True), member("again", "a:1"))
    firsts = set()
    for number in range(50):
        rm_id = RmId(f"rm{number}")
        told = told_to(rm_id, at, MemberId("a"))
        likely = choose(rm_id, others)
        assert likely is not None
        assert (told[0], told[-1], len(told)) == (likely.address, "e:1", 4)
        firsts.add(told[0])
    assert len(firsts) == 3
