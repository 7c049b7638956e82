"""The page's feed on a member: the RMs of all members, and those members that are lost."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.http.ui import looking
from licorne_server.http.ui.mirrors import items_of
from licorne_server.reads.members import CALLER, SECRET, Passed
from licorne_server.security.access import Caller
from licorne_server.store.coordination.store import Member, MemberId
from support.members import TOKEN, Table, deployment, member, table_of
from support.peers.shim import Shim, connected
from support.server.http_site import API, Viewer

TWO = "partitions: [{name: default, queues: [{name: root, queues: [{name: below}]}]}]"


class Board:
    """All rows that a viewer of a feed was told, by kind and name."""

    def __init__(self, viewer: Viewer) -> None:
        """Know nothing yet."""
        self._viewer = viewer
        self.rows: dict[str, dict[Any, Any]] = {}

    async def until(self, seen: Callable[["Board"], bool]) -> None:
        """Take changes until something is so."""
        while not seen(self):
            change = await self._viewer.change()
            if change["whole"]:
                self.rows = {}
            for kind, rm, partition, name in change.get("gone", ()):
                self.rows.get(kind, {}).pop(name or partition or rm, None)
            for kind, key in (("rms", "id"), ("partitions", "name"), ("missing", "name")):
                for row in change.get(kind, ()):
                    self.rows.setdefault(kind, {})[row[key]] = row
            for row in change.get("queues", ()):
                self.rows.setdefault("queues", {})[row["partition"], row["path"]] = row

    def names(self, kind: str) -> set[Any]:
        """The names of a kind."""
        return set(self.rows.get(kind, ()))


@asynccontextmanager
async def watching(server: Server, **headers: str) -> AsyncIterator[Board]:
    """A viewer of a server's feed."""
    url = f"http://{server.http_address}{API}/feed"
    async with aiohttp.ClientSession() as client, client.get(url, headers=headers) as answer:
        assert answer.status == 200
        yield Board(Viewer(answer.content))


async def register(server: Server, rm: str, config: str = "") -> None:
    """An RM on a server."""
    async with connected(server) as channel:
        await Shim(channel, rm).register(config=config)


async def test_the_feed_has_the_rms_of_all_members_live() -> None:
    """RMs, partitions and queues of another member are told, and what comes and goes there."""
    async with deployment("a", "b") as [left, right]:
        await register(left, "left")
        async with watching(right) as board:
            await board.until(lambda board: "left" in board.names("rms"))
            assert board.names("partitions") == {"[left]default"}
            assert ("[left]default", "root") in board.names("queues")
            await register(right, "right")
            await register(left, "late")
            await board.until(lambda board: board.names("rms") == {"left", "right", "late"})


async def test_another_member_is_told_of_the_own_rms_alone() -> None:
    """So no row goes round, whoever looks at the page."""
    passed = Passed(Caller(frozenset(), True, "member b"), True).text()
    async with deployment("a", "b") as [left, right]:
        await register(left, "left")
        await register(right, "right")
        async with watching(left) as all_of_them, watching(left, **{SECRET: TOKEN, CALLER: passed}) as own:
            await all_of_them.until(lambda board: len(board.names("rms")) == 2)
            await own.until(lambda board: bool(board.names("rms")))
            assert own.names("rms") == {"left"}


async def test_a_member_that_is_lost_is_named() -> None:
    """A row names it, with the reason, until it is not a member any more."""
    table = Table()
    lost = Member(id=MemberId("lost"), name="lost", address="", http="http://127.0.0.1:9")
    async with member(table, "a") as left, watching(left) as board:
        table.members[lost.id] = lost
        await board.until(lambda board: "lost" in board.names("missing"))
        assert board.rows["missing"]["lost"]["reason"] == "member lost does not answer"
        del table.members[lost.id]
        await board.until(lambda board: not board.names("missing"))


async def test_members_share_the_queues_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shows as many, and a partition with more is marked as cut."""
    monkeypatch.setattr(looking, "MAX_QUEUES", 2)
    async with deployment("a", "b") as servers:
        await register(servers[0], "left", TWO)
        async with watching(servers[1]) as board:
            await board.until(lambda board: "left" in board.names("rms"))
            assert board.names("queues") == {("[left]default", "root")}
            assert board.rows["partitions"]["[left]default"]["cut"]
    assert RmId("left") in table_of(servers).rms


def test_an_object_is_read_item_by_item() -> None:
    """Members come in order, those of lists one by one; a cut object is an error."""
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
