"""The feed: live, once for all viewers, and only while there are any."""

from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from licorne_core.ids import PartitionName
from licorne_core.reports import QueueReport
from licorne_server.http import Sources
from licorne_server.http.ui import feed, looking
from licorne_server.http.ui.board import Board
from support.builders import RM, app, apps, ask, asks, config, register, reload
from support.http_site import Site
from support.page_viewer import API, happened, viewing


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows with each look; its items say which of them were whole."""
    looks: list[bool] = []
    real = looking.Looker.look

    def look(looker: looking.Looker, *, whole: bool) -> Iterator[None]:
        looks.append(whole)
        return real(looker, whole=whole)

    monkeypatch.setattr(looking.Looker, "look", look)
    return looks


async def test_first_comes_what_server_it_is_and_then_everything(town: Site) -> None:
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


async def test_then_comes_what_has_changed_and_nothing_else(town: Site) -> None:
    """A queue that nothing has happened to is not told of again."""
    async with viewing(town) as viewer:
        await viewer.change()
        town.driver.do(asks(ask("runner", "r2", vcore=1000, memory=10)))
        happened(town)
        found = await viewer.change()
        assert not found["whole"]
        assert {row["path"] for row in found["queues"]} == {"root", "root.runs"}


async def test_what_is_gone_is_told(town: Site) -> None:
    """A queue that the configuration has no more goes from the page once it is empty."""
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


async def test_nothing_is_looked_at_while_nobody_looks(
    town: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The looks begin with the first viewer, and end with the last."""
    looks = counted(monkeypatch)
    assert not looks
    async with viewing(town) as first, viewing(town) as second:
        assert (await first.change())["whole"]
        assert (await second.change())["whole"]
        assert looks == [True], "one look serves all viewers"


async def test_nothing_is_looked_at_while_nothing_happens(
    town: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle server only says that it is there."""
    monkeypatch.setattr(feed, "BEAT_SECONDS", 0.05)
    looks = counted(monkeypatch)
    async with viewing(town) as viewer:
        await viewer.change()
        names = [(await viewer.next())[0] for _ in range(3)]
        assert names == ["beat"] * 3
        assert looks == [True]


async def test_there_are_only_so_many_viewers(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused, and let in once another has gone."""
    monkeypatch.setattr(feed, "MAX_VIEWERS_OF_PARTY", 2)
    monkeypatch.setattr(feed, "BEAT_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(viewing(town))
        last = viewing(town)
        await last.__aenter__()
        async with town.client.get(f"{town.address}{API}/feed") as answer:
            assert answer.status == 503
            assert "2 viewers" in (await answer.json())["message"]
        await last.__aexit__(None, None, None)
        async with viewing(town, patient=True) as viewer:
            assert (await viewer.change())["whole"]


async def test_a_server_without_rms_tells_that_there_are_none(site: Site) -> None:
    """A page need not wait to know that it is up to date."""
    async with viewing(site) as viewer:
        found = await viewer.change()
        assert found["whole"]
        assert "rms" not in found


async def test_large_trees_are_cut(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deepest queues are left out, and the partition says so."""
    monkeypatch.setattr(looking, "MAX_QUEUES", 2)
    async with viewing(town) as viewer:
        found = await viewer.change()
        assert len(found["queues"]) == 2
        assert found["partitions"][0]["cut"]


async def test_names_travel_as_json(town: Site) -> None:
    """A name with line ends or tags is a text inside a message, and ends none."""
    name = "<img src=x onerror=alert(1)>"
    town.driver.do(register(config("[{name: a}]"), rm="line\n\nend"), apps(app(name, "root.runs")))
    happened(town)
    async with viewing(town) as viewer:
        found = await viewer.change()
        assert "line\n\nend" in {row["id"] for row in found["rms"]}


async def test_idle_partitions_are_passed_by(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one RM does costs nothing for the queues of another; a whole look passes by nothing."""
    town.driver.do(register(config("[{name: a}]"), rm="idle"))
    happened(town)
    views = town.driver.views
    sources = Sources(
        views=views, status=town.status, started_time=1, now=lambda: 1, rm_state=town.rm_state
    )
    looker = looking.Looker(sources, board := Board())
    read: list[str] = []
    real = views.queue

    def noted(partition: PartitionName, path: str) -> QueueReport:
        read.append(partition)
        return real(partition, path)

    monkeypatch.setattr(views, "queue", noted)
    list(looker.look(whole=True))
    assert set(read) == {f"[{RM}]default", "[idle]default"}
    read.clear()
    town.driver.do(asks(ask("runner", "r2", vcore=1000, memory=10)))
    list(looker.look(whole=False))
    assert set(read) == {f"[{RM}]default"}
    assert board.since(0, None).count('"path"') == 5
    read.clear()
    list(looker.look(whole=True))
    assert set(read) == {f"[{RM}]default", "[idle]default"}
