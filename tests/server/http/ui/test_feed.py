"""The feed: live, made once for all viewers, and only while there are viewers."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from licorne_core.values.ids import PartitionName
from licorne_core.views.queues import QueueReport
from licorne_server.http import stream
from licorne_server.http.ui import feed, looking
from licorne_server.http.ui.looking import Board, Visible
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.sources import RmFigures, Sources
from support.core.builders import RM, app, apps, ask, asks, config, register, reload
from support.server.http_site import API, Site, happened, viewing


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that grows with each snapshot; an item is True for a snapshot of everything."""
    looks: list[bool] = []
    real = looking.Looker.look

    def look(looker: looking.Looker, rms: Sequence[RmFigures], *, whole: bool) -> Iterator[None]:
        looks.append(whole)
        return real(looker, rms, whole=whole)

    monkeypatch.setattr(looking.Looker, "look", look)
    return looks


async def test_the_first_message_has_the_whole_state(town: Site) -> None:
    """RMs with their connection, partitions and queues with their amounts, and the logs."""
    async with viewing(town) as viewer:
        name, hello = await viewer.next()
        assert (name, hello["role"], hello["started"]) == ("hello", "open", 1_000_000_000)
        assert hello["instance"]
        found = await viewer.change()
    assert found["whole"]
    [rm] = found["rms"]
    assert (rm["id"], rm["connected"], rm["since"]) == (RM, True, 5000)
    [partition] = found["partitions"]
    assert (partition["nodes"], partition["pendingAsks"], partition["holds"]) == (2, 1, [])
    queues = {row["path"]: row for row in found["queues"]}
    assert set(queues) == {"root", "root.runs", "root.full"}
    assert queues["root.full"]["allocated"] == {"vcore": 2000, "memory": 10}
    assert queues["root.full"]["pending"]["vcore"] == 1000
    assert queues["root.full"]["max"] == {"vcore": 2000}


async def test_later_messages_have_changes_only(town: Site) -> None:
    """An unchanged queue is not sent again."""
    async with viewing(town) as viewer:
        await viewer.change()
        town.driver.do(asks(ask("runner", "r2", vcore=1000, memory=10)))
        happened(town)
        found = await viewer.change()
        assert not found["whole"]
        assert {row["path"] for row in found["queues"]} == {"root", "root.runs"}


def rendered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each message that is encoded; its items are the versions of the viewers."""
    made: list[int] = []
    real = Board.since

    def since(board: Board, version: int, visible: Visible | None) -> Iterator[str]:
        made.append(version)
        return real(board, version, visible)

    monkeypatch.setattr(Board, "since", since)
    return made


async def test_viewers_share_encoded_messages(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """For five viewers the whole state and each change are encoded once."""
    made = rendered(monkeypatch)
    async with AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(viewing(town)) for _ in range(5)]
        changes = await asyncio.gather(*(viewer.change() for viewer in viewers))
        assert made == [0]
        assert all(change["whole"] for change in changes)
        town.driver.do(asks(ask("runner", "r2", vcore=1000, memory=10)))
        happened(town)
        changes = await asyncio.gather(*(viewer.change() for viewer in viewers))
        assert made == [0, 1]
        assert all(len(change["queues"]) == 2 for change in changes)


def board_of(town: Site) -> tuple[Board, TimeSlices]:
    """The present board, and the time slices of its readers."""
    time_slices = TimeSlices(lambda: False)
    sources = Sources(
        views=town.driver.views,
        status=town.status,
        started_time=1,
        now=lambda: 1,
        rm_state=town.rm_state,
        recorder=town.recorder,
        time_slices=time_slices,
    )
    list(looking.Looker(sources, board := Board()).look((), whole=True))
    return board, time_slices


async def test_messages_are_encoded_in_time_slices(town: Site) -> None:
    """While another reader has its time slice no message is encoded, and a long one delays nobody."""
    board, time_slices = board_of(town)
    made = feed.Renderings(time_slices)
    async with time_slices.slice("somebody else"):
        waiting = asyncio.ensure_future(made.since(board, 0, feed.EVERYBODY))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
    assert b'"queues"' in b"".join((await waiting).chunks)


async def test_viewers_with_other_rights_get_other_messages(town: Site) -> None:
    """A message for other rights is not shared, even at the same moment."""
    town.driver.do(register(config("[{name: secret}]"), rm="other"))
    board, time_slices = board_of(town)
    made = feed.Renderings(time_slices)
    mine = feed.Audience("mine", "me", lambda rm_id: rm_id == RM)
    everything, own, again = await asyncio.gather(
        made.since(board, 0, feed.EVERYBODY),
        made.since(board, 0, mine),
        made.since(board, 0, mine),
    )
    assert b"root.secret" in b"".join(everything.chunks)
    assert b"root.secret" not in b"".join(own.chunks)
    assert again is own


async def test_a_long_message_is_sent_in_chunks(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chunk is longer than those of other answers, and a viewer gets one message."""
    monkeypatch.setattr(stream, "CHUNK", 100)
    monkeypatch.setattr(feed, "CHUNK", 100)
    written: list[int] = []
    real = web.StreamResponse.write

    async def write(response: web.StreamResponse, data: bytes) -> None:
        written.append(len(data))
        await real(response, data)

    monkeypatch.setattr(web.StreamResponse, "write", write)
    async with viewing(town) as viewer:
        found = await viewer.change()
    assert {row["path"] for row in found["queues"]} == {"root", "root.runs", "root.full"}
    assert len(written) > 5
    assert max(written) < 1000, "a row is not cut"


async def test_messages_are_neither_cached_nor_buffered(town: Site) -> None:
    """No cache stores the messages, and no proxy buffers them."""
    async with town.client.get(f"{town.address}{API}/feed") as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Accel-Buffering"] == "no"


async def test_queues_are_shared_equally_by_rms(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all queues fit, each RM has an equal share, and unused room is shared by the others."""
    many = ", ".join(f"{{name: q{number}}}" for number in range(30))
    for rm in ("large", "huge"):
        town.driver.do(register(config(f"[{many}]"), rm=rm))
    town.driver.do(register(config("[{name: a}, {name: b}]"), rm="late"))
    happened(town)
    monkeypatch.setattr(looking, "MAX_QUEUES", 16)
    async with viewing(town) as viewer:
        found = await viewer.change()
    shown = Counter(row["partition"] for row in found["queues"])
    assert {name.partition("]")[0][1:]: count for name, count in shown.items()} == {
        RM: 3,
        "large": 5,
        "huge": 5,
        "late": 3,
    }
    assert {row["rm"] for row in found["partitions"] if row["cut"]} == {"large", "huge"}


async def test_a_removed_queue_is_reported(town: Site) -> None:
    """A queue that was removed from the configuration disappears once it is empty."""
    async with viewing(town) as viewer:
        await viewer.change()
        town.driver.do(reload(config("[{name: runs}, {name: full}, {name: fresh}]")))
        happened(town)
        found = await viewer.change()
        assert "root.fresh" in {row["path"] for row in found["queues"]}
        town.driver.do(reload(config("[{name: runs}, {name: full}]")))
        town.driver.wait(60)
        happened(town)
        gone = (await viewer.change()).get("gone", [])
        assert ["queues", RM, f"[{RM}]default", "root.fresh"] in gone


async def test_no_snapshots_without_viewers(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots begin with the first viewer, and end with the last."""
    looks = counted(monkeypatch)
    assert not looks
    async with viewing(town) as first, viewing(town) as second:
        assert (await first.change())["whole"]
        assert (await second.change())["whole"]
        assert looks == [True], "one look serves all viewers"


async def test_an_idle_server_sends_heartbeats_only(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without changes no snapshot is made."""
    monkeypatch.setattr(feed, "BEAT_SECONDS", 0.05)
    looks = counted(monkeypatch)
    async with viewing(town) as viewer:
        await viewer.change()
        names = [(await viewer.next())[0] for _ in range(3)]
        assert names == ["beat"] * 3
        assert looks == [True]


async def test_viewers_are_bounded(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One viewer too many is refused, and admitted once another has left."""
    monkeypatch.setattr(feed, "BEAT_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        for _ in range(feed.MAX_VIEWERS_OF_PEER - 1):
            await stack.enter_async_context(viewing(town))
        last = viewing(town)
        await last.__aenter__()
        async with town.client.get(f"{town.address}{API}/feed") as answer:
            assert answer.status == 503
            message = (await answer.json())["message"]
            assert message.startswith(f"{feed.MAX_VIEWERS_OF_PEER} viewers of ")
        await last.__aexit__(None, None, None)
        async with viewing(town, patient=True) as viewer:
            assert (await viewer.change())["whole"]


async def test_a_server_without_rms_says_so(site: Site) -> None:
    """The first message of a server without RMs is complete."""
    async with viewing(site) as viewer:
        found = await viewer.change()
        assert found["whole"]
        assert "rms" not in found


async def test_large_trees_are_cut(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deepest queues are left out, and the partition is marked."""
    monkeypatch.setattr(looking, "MAX_QUEUES", 2)
    async with viewing(town) as viewer:
        found = await viewer.change()
        assert len(found["queues"]) == 2
        assert found["partitions"][0]["cut"]


async def test_names_are_encoded_as_json(town: Site) -> None:
    """A name with line ends or tags is a text inside a message, and ends none."""
    name = "<img src=x onerror=alert(1)>"
    town.driver.do(register(config("[{name: a}]"), rm="line\n\nend"), apps(app(name, "root.runs")))
    happened(town)
    async with viewing(town) as viewer:
        found = await viewer.change()
        assert "line\n\nend" in {row["id"] for row in found["rms"]}


async def test_idle_partitions_are_skipped(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of one RM cost nothing for the queues of another; a whole snapshot skips nothing."""
    town.driver.do(register(config("[{name: a}]"), rm="idle"))
    happened(town)
    views = town.driver.views
    sources = Sources(
        views=views,
        status=town.status,
        started_time=1,
        now=lambda: 1,
        rm_state=town.rm_state,
        recorder=town.recorder,
    )
    looker = looking.Looker(sources, board := Board())
    read: list[str] = []
    real = views.queue

    def noted(partition: PartitionName, path: str) -> QueueReport:
        read.append(partition)
        return real(partition, path)

    monkeypatch.setattr(views, "queue", noted)
    list(looker.look((), whole=True))
    assert set(read) == {f"[{RM}]default", "[idle]default"}
    read.clear()
    town.driver.do(asks(ask("runner", "r2", vcore=1000, memory=10)))
    list(looker.look((), whole=False))
    assert set(read) == {f"[{RM}]default"}
    assert "".join(board.since(0, None)).count('"path"') == 5
    read.clear()
    list(looker.look((), whole=True))
    assert set(read) == {f"[{RM}]default", "[idle]default"}
