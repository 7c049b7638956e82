"""The history of queues, and of the positions of asks, in the page's form."""

from dataclasses import replace

import pytest

from licorne_core.config import load
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.store.configurations.revisions import Mark, MarkKind, Revisions, Source
from support.core.builders import RM, ask, asks, config, register, victim
from support.server.http_site import MINE, Site

HERE = PartitionName("[rm1]default")


async def test_a_queue_has_a_history_of_an_hour_and_of_a_day(town: Site) -> None:
    """There is a value for each step from `start` on, with bounds; a partition has its nodes."""
    town.record(130)
    hour = await town.get(f"{MINE}/history?queue=root.full")
    assert hour["step"] == 5000
    assert hour["start"] % 5000 == 0
    length = len(hour["applications"])
    assert hour["start"] + (length - 1) * 5000 <= hour["now"] < hour["start"] + (length + 1) * 5000
    vcore = hour["resources"]["vcore"]
    assert {name: values[-1] for name, values in vcore.items()} == {
        "used": 2000,
        "waiting": 1000,
        "guaranteed": None,
        "max": 2000,
    }
    assert {len(values) for values in (*vcore.values(), hour["stopped"])} == {length}
    assert "nodes" not in hour
    day = await town.get(f"{MINE}/history?span=day")
    assert day["step"] == 60_000
    assert day["start"] % 60_000 == 0
    assert day["nodes"]["count"][-1] == 2
    assert [sum(fill) for fill in day["nodes"]["fill"]] == day["nodes"]["count"]
    assert len(day["resources"]["vcore"]["used"]) == len(day["applications"]) in (3, 4)
    assert (await town.refused(f"{MINE}/history?queue=root.nowhere"))["status_code"] == 404


async def test_all_recorded_queues_have_sparklines(town: Site) -> None:
    """A sparkline has 60 points for the last hour."""
    town.record(130)
    found = await town.get(f"{MINE}/sparks?resource=vcore")
    assert sorted(found["queues"]) == ["root", "root.full", "root.runs"]
    full = found["queues"]["root.full"]
    assert len(full["used"]) == len(full["waiting"]) == 60
    assert (full["used"][0], full["used"][-1], full["waiting"][-1]) == (None, 2000, 1000)
    assert found["start"] + 60 * found["step"] > (await town.get(f"{MINE}/history"))["now"]
    assert (await town.get(f"{MINE}/sparks?resource=gpu"))["queues"] == {}


async def test_marks_have_changes_and_their_authors(town: Site) -> None:
    """Marks are configurations, registrations, restarts, acts of operators, and the victims of a step."""
    site = town
    first = Revisions(rm_id=RmId(RM)).adding(load(config("[]")), Source.REGISTRATION, time=1, by="")
    site.revisions[RM] = first
    site.record(5)
    mark = Mark(kind=MarkKind.NODE, partition=HERE, name="n1", by="ann", time=1, why="disk")
    second = first.adding(load(config("[{name: x}]")), Source.OPERATOR, time=2, by="bob", comment="more")
    site.revisions[RM] = second.marking(mark, on=True)
    ledger = site.driver.scheduler.partitions[HERE].ledger
    ledger.note(victim("v1"))
    ledger.note(victim("v2"))
    site.record(5)
    other = replace(mark, kind=MarkKind.QUEUE, name="root.full", why="")
    site.revisions[RM] = second.marking(other, on=True)
    site.driver.do(register(config("[{name: runs}, {name: full}]")))
    site.record(5)
    marks = (await site.get(f"{MINE}/history"))["marks"]
    assert [mark["time"] for mark in marks] == sorted(mark["time"] for mark in marks)
    assert sorted((mark["kind"], mark["text"], mark["count"]) for mark in marks) == [
        ("configuration", "configuration 2 in force by bob: more", 1),
        ("cordon", "node n1 cordoned by ann: disk", 1),
        ("cordon", "node n1 takes work again", 1),
        ("preemption", "2 allocations were asked to stop", 2),
        ("registration", "RM rm1 registered", 1),
        ("registration", "RM rm1 registered", 1),
        ("restart", "server started", 1),
        ("stop", "queue root.full stopped by ann", 1),
    ]
    of_queue = (await site.get(f"{MINE}/history?queue=root.runs"))["marks"]
    assert "preemption" not in {mark["kind"] for mark in of_queue}


async def test_the_position_of_an_ask_is_recorded(town: Site) -> None:
    """Positions are recorded from the first query on, with the blocker."""
    town.driver.do(asks(ask("waiter", "w3", vcore=1500)))
    path = f"{MINE}/application/waiter/standing?key=w3"
    assert (await town.get(path))["times"] == []
    town.record(10)
    found = await town.get(path)
    assert found["asksAhead"] == [1, 1, 1]
    assert found["applicationsAhead"] == [0, 0, 0]
    assert found["codes"] == ["QUEUE_MAX_EXCEEDED"] * 3
    assert found["times"][1] - found["times"][0] == 5000
    assert (await town.refused(f"{MINE}/application/none/standing?key=w3"))["status_code"] == 404


@pytest.mark.parametrize("query", ["span=week", f"queue={'x' * 300}"])
async def test_an_invalid_query_of_the_history_is_refused(town: Site, query: str) -> None:
    """The answer names the problem of the parameter."""
    assert (await town.refused(f"{MINE}/history?{query}"))["status_code"] == 400
