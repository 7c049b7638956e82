"""`licorne members` against running members."""

from collections.abc import AsyncIterator

import pytest

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.store.coordination.store import MemberId
from licorne_server.store.coordination.store import Ownership as Record
from support.members import deployment, table_of
from support.peers.shim import Shim, connected, serving
from support.peers.town import Shell


@pytest.fixture
async def members() -> AsyncIterator[list[Server]]:
    """Two members, and an RM on the first one."""
    async with deployment("a", "b") as servers, connected(servers[0]) as channel:
        await Shim(channel, "rm").register()
        yield servers


async def test_members_are_listed(members: list[Server], capsys: pytest.CaptureFixture[str]) -> None:
    """Each has its state, address, RMs and load; one is chosen by its name."""
    shell = Shell(members[1].grpc_address, capsys)
    header, first, second = (await shell("members")).rows
    assert header == ["MEMBER", "STATE", "FOR", "ADDRESS", "RMS", "LOAD", "VERSION"]
    assert [*first[:2], *first[3:]] == ["a", "active", members[0].grpc_address, "1", "0.00", "1.2"]
    assert second[0] == "b"
    assert (await shell("members", "-o", "name")).out.split() == ["member/a", "member/b"]
    [one] = (await shell("members", "a", "-o", "json")).json["members"]
    assert (one["id"], one["rms"][0]["rmId"]) == ("id-of-a", "rm")
    lost = await shell("members", "lost")
    assert (lost.code, lost.err) == (3, 'licorne: no member "lost"; there are: a, b\n')


async def test_rms_are_listed_with_their_members(
    members: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each RM has member and epoch, or the address of the owner; an RM without a member has neither."""
    shell = Shell(members[1].grpc_address, capsys)
    table_of(members).rms[RmId("free")] = Record(rm_id=RmId("free"), owner=MemberId(""), epoch=9)
    rows = (await shell("members", "--rms")).rows
    assert rows == [
        ["RM", "MEMBER", "EPOCH", "LOAD", "MOVED"],
        ["rm", "a", "1", "0.00", "-"],
        ["free", "-", "9", "0.00", "-"],
    ]
    assert (await shell("members", "--endpoints", "--no-headers")).rows == [["rm", members[0].grpc_address]]
    plain = (await shell("members", "--rms", "-o", "json")).json["rms"]
    assert [(one["rmId"], one["member"]) for one in plain] == [("rm", "a"), ("free", "")]
    assert (await shell("members", "b", "--endpoints", "-o", "json")).json["endpoints"] == []
    assert (await shell("members", "nobody", "--rms")).code == 3
    assert (await shell("members", "--rms", "--sort-by", "load")).code == 1


async def test_a_member_is_drained_and_undrained(
    members: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan has the number of RMs to move and their targets; the list has operator and reason."""
    shell = Shell(members[1].grpc_address, capsys)
    unasked = await shell("members", "drain", "a")
    assert unasked.code == 1
    done = await shell("members", "drain", "a", "--yes", "--message", "new kernel")
    assert done.err.splitlines() == [
        "member a is to give 1 RM to 1 other active member, and to take none",
        "member a is to be drained: 1 RM there now",
    ]
    listed = (await shell("members", "--no-headers")).rows[0]
    assert (listed[1], listed[-2:]) == ("draining", ["new", "kernel"])
    again = await shell("members", "drain", "member/a", "--yes")
    assert again.err.splitlines()[1] == "member a is to be drained already: 1 RM there now"
    undone = await shell("members", "undrain", "a")
    assert undone.err == "member a is not to be drained: 1 RM there now\n"
    assert (await shell("members", "drain", "nobody", "--yes")).code == 3


async def test_a_stale_list_says_so(members: list[Server], capsys: pytest.CaptureFixture[str]) -> None:
    """The line on stderr has the reason."""
    table_of(members).answers = False
    result = await Shell(members[0].grpc_address, capsys)("members")
    assert result.err == "this may be out of date: the store does not answer\n"
    assert len(result.rows) == 3


async def test_a_server_that_is_alone_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal names the option."""
    async with serving() as server:
        result = await Shell(server.grpc_address, capsys)("members")
    assert result.code == 4
    assert "it was started without --coordination" in result.err
