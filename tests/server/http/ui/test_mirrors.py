"""The page's feed on a member: the RMs of all members, and lost members."""

import json
from contextlib import aclosing

import pytest

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.http.ui import looking
from licorne_server.http.ui.mirrors import items_of
from support.members import deployment, table_of
from support.peers.shim import Shim, connected
from support.server.http_site import API, watching

TWO = "partitions: [{name: default, queues: [{name: root, queues: [{name: below}]}]}]"


async def register(server: Server, rm: str, config: str = "") -> None:
    """An RM on a server."""
    async with connected(server) as channel:
        await Shim(channel, rm).register(config=config)


async def test_the_feed_includes_the_rms_of_all_members() -> None:
    """RMs, partitions and queues of another member are included, with additions and removals."""
    async with deployment("a", "b") as [left, right]:
        await register(left, "left")
        async with watching(right) as board:
            await board.until(lambda board: "left" in board.names("rms"))
            assert board.names("partitions") == {"[left]default"}
            assert ("[left]default", "root") in board.names("queues")
            await register(right, "right")
            await register(left, "late")
            await board.until(lambda board: board.names("rms") == {"left", "right", "late"})


async def test_members_send_each_other_their_own_rms_only() -> None:
    """No row is sent on, so that rows do not circulate."""
    async with deployment("a", "b") as [left, right]:
        await register(left, "left")
        await register(right, "right")
        members = right.members
        assert members is not None
        [other] = members.others()
        async with (
            watching(left) as all_of_them,
            members.answer(other, f"{API}/feed", members.own_right) as answer,
            aclosing(answer.chunks()) as chunks,
        ):
            await all_of_them.until(lambda board: len(board.names("rms")) == 2)
            told = b""
            while b'"rms":' not in told:
                told += await anext(chunks)
            assert b'"[left]default"' in told
            assert b'"[right]default"' not in told


async def test_members_share_the_bound_on_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member includes the same number of queues, and marks a partition with more as cut."""
    monkeypatch.setattr(looking, "MAX_QUEUES", 2)
    async with deployment("a", "b") as servers:
        await register(servers[0], "left", TWO)
        async with watching(servers[1]) as board:
            await board.until(lambda board: "left" in board.names("rms"))
            assert board.names("queues") == {("[left]default", "root")}
            assert board.rows["partitions"]["[left]default"]["cut"]
    assert RmId("left") in table_of(servers).rms


def test_answers_of_members_are_read_item_by_item() -> None:
    """Answers are read in order, those of lists one by one, and an incomplete one is an error."""
    value = {"version": 3, "rms": [{"id": "a]"}, {"id": "b"}], "gone": [["rms", "x"]], "time": 1.5}
    text = json.dumps(value, separators=(",", ":"))
    expected = [
        ("version", 3),
        ("rms", {"id": "a]"}),
        ("rms", {"id": "b"}),
        ("gone", ["rms", "x"]),
        ("time", 1.5),
    ]
    assert list(items_of(text)) == expected
    for end in range(1, len(text)):
        with pytest.raises((ValueError, IndexError)):
            list(items_of(text[:end]))
