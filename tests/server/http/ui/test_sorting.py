"""Lists in an order that the viewer selects."""

from functools import partial
from operator import itemgetter
from typing import Any

import pytest

from extensions.queue_stops.building import stop
from licorne_server.http.ui import listing
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, remove_apps
from support.server.http_site import MINE, Site


async def pages(site: Site, path: str, limit: int = 500) -> list[dict[str, Any]]:
    """The rows of all pages of a list."""
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        answer = await site.get(f"{MINE}/{path}&limit={limit}&after={after}")
        assert not answer["cut"]
        assert len(answer["rows"]) <= limit
        rows += answer["rows"]
        after = answer["next"]
        if not after:
            return rows


def value(row: dict[str, Any], column: str) -> Any:
    """The sort key of a list, as read from its rows."""
    name, _, amount = column.partition(".")
    found = row[name]
    if amount:
        return found.get(amount, 0)
    return found["code"] if name == "reason" else found


@pytest.fixture
def crowd(town: Site) -> Site:
    """An RM with 3,000 applications of 40 users, a third of which have asks."""
    many = range(3000)
    town.driver.do(
        apps(*(app(f"many-{n:04}", "root.runs", user=f"user-{n % 40}") for n in many)),
        asks(*(ask(f"many-{n:04}", f"ask-{n}", vcore=100 + n * 7 % 1000, memory=1) for n in many[::3])),
    )
    return town


COLUMNS = (
    *("-name", "id", "queue", "user", "-user", "state", "-reason", "waitingSince", "submitted", "finished"),
    *("-pendingAsks", "allocations", "-allocated.vcore", "allocated.memory", "-pending.vcore"),
    *("pending.memory", "placeholders.vcore"),
)


@pytest.mark.slow
async def test_3000_applications_are_sorted_by_each_column(crowd: Site) -> None:
    """In either direction, rows with equal values are ordered by their names."""
    whole = await pages(crowd, "applications?sort=name")
    assert len(whole) == len({row["name"] for row in whole}) == 3002
    for column in COLUMNS:
        found = (await crowd.get(f"{MINE}/applications?sort={column}&limit=100"))["rows"]
        expected = sorted(whole, key=itemgetter("name"))
        name = column.removeprefix("-")
        expected.sort(key=partial(value, column=name), reverse=name != column)
        assert [row["name"] for row in found] == [row["name"] for row in expected[:100]], column


async def test_an_order_is_computed_once_over_all_rows(crowd: Site) -> None:
    """The answer has the work, the number of rows, and the time from which it may be queried again."""
    answer = await crowd.get(f"{MINE}/applications?sort=-pending.vcore&waiting=1&limit=2")
    assert (answer["lookedAt"], answer["total"]) == (3002, 3002)
    assert answer["found"] > len(answer["rows"]) == 2
    assert answer["refresh"] >= 2000


async def test_pages_are_consistent_while_rows_change(town: Site) -> None:
    """A row with an unchanged value is on exactly one page, although others are added and removed."""
    some = [f"many-{n:02}" for n in range(40)]
    town.driver.do(apps(*(app(name, "root.runs", user=f"user-{n % 4}") for n, name in enumerate(some))))
    seen: list[str] = []
    after, turn = "", 0
    while True:
        answer = await town.get(f"{MINE}/applications?sort=user&limit=7&after={after}")
        seen += [row["name"] for row in answer["rows"]]
        after = answer["next"]
        if not after:
            break
        turn += 1
        town.driver.do(
            apps(app(f"early-{turn}", "root.runs", user="aaa"), app(f"late-{turn}", "root.runs", user="zoe")),
            asks(ask("waiter", f"more-{turn}", vcore=1)),
            remove_apps(f"early-{turn - 1}"),
        )
    assert {*some, "runner", "waiter"} <= set(seen)
    assert len(seen) == len(set(seen))


async def test_a_very_long_list_is_cut(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows beyond the bound are in no page, and the answer says so."""
    monkeypatch.setattr(listing, "MAX_SORTED", 1)
    answer = await town.get(f"{MINE}/applications?sort=-name")
    assert (answer["cut"], answer["lookedAt"], [row["name"] for row in answer["rows"]]) == (
        True,
        1,
        ["runner"],
    )


async def names(site: Site, path: str, key: str) -> list[Any]:
    """The names in one column of a list."""
    return [row[key] for row in (await site.get(f"{MINE}/{path}"))["rows"]]


async def test_other_lists_are_sorted_by_their_keys(town: Site) -> None:
    """Nodes are sorted by use, users by pending amounts, asks by priority, allocations by size."""
    town.driver.do(
        nodes(node("n3", attributes={"rack": "r1"}, vcore=8000, memory=500)),
        asks(
            ask("waiter", "x1", vcore=5000, priority=9),
            ask("waiter", "x2", vcore=4000, priority=10),
            ask("runner", "r2", vcore=3000),
        ),
    )
    assert (await names(town, "nodes?sort=-capacity.memory", "id"))[0] == "n3"
    assert await names(town, "nodes?sort=id&attribute=rack=r1", "id") == ["n3"]
    assert await names(town, "usage?kind=user&sort=-pending.vcore", "name") == ["bob", "ann"]
    assert await names(town, "usage?kind=user&sort=-allocated.vcore", "name") == ["ann", "bob"]
    [bob] = (await town.get(f"{MINE}/usage?kind=user&q=bob"))["rows"]
    assert (bob["asks"], bob["pending"]["vcore"]) == (3, 10000)
    assert await names(town, "application/waiter/asks?sort=-priority", "priority") == [10, 9, 0]
    assert await names(town, "application/runner/allocations?sort=-resource.vcore", "allocationKey") == [
        "r2",
        "r1",
    ]
    assert await names(town, "preemptions?sort=time", "number") == []
    assert await names(town, "reservations?sort=node", "key") == []


async def test_applications_have_the_reason_of_their_wait(town: Site) -> None:
    """Applications have, and can be filtered by, the code of the first ask's blocker."""
    [waiter] = (await town.get(f"{MINE}/applications?reason=queue_max_exceeded"))["rows"]
    assert waiter["reason"]["code"] == "QUEUE_MAX_EXCEEDED"
    assert "root.full" in waiter["reason"]["text"]
    assert waiter["reason"]["key"] == "w2"
    assert waiter["waitingSince"] > 0
    [runner] = (await town.get(f"{MINE}/applications?q=runner&sort=reason"))["rows"]
    assert runner["reason"] == {"code": "", "text": "", "key": ""}
    [ask_of] = (await town.get(f"{MINE}/application/waiter/asks?reason=QUEUE_MAX_EXCEEDED&sort=priority"))[
        "rows"
    ]
    assert ask_of["reason"]["text"] == waiter["reason"]["text"]
    town.driver.do(stop("root.full"))
    assert await names(town, "applications?reason=QUEUE_STOPPED&sort=-waitingSince", "name") == ["waiter"]
    assert await names(town, "applications?reason=QUEUE_MAX_EXCEEDED", "name") == []


async def test_reservations_are_filtered(site: Site) -> None:
    """Reservations are filtered by queue, by the reason why their asks wait, and by names."""
    properties = "{reservation.max.nodes: '9', application.reservation.max.nodes: '9'}"
    site.driver.do(
        register(config("[{name: a}, {name: b}]", properties=properties)),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("one", "root.a"), app("two", "root.b")),
        asks(ask("one", "k1", vcore=6), ask("one", "k2", vcore=6)),
        asks(ask("one", "big", vcore=8), ask("two", "large", vcore=7)),
    )
    site.driver.wait(3)
    assert await names(site, "reservations?sort=-kept.vcore", "key") == ["big", "large"]
    [row] = (await site.get(f"{MINE}/reservations?queue=root.b&q=LAR"))["rows"]
    assert (row["application"], row["reason"]["code"]) == ("two", "WAITS_FOR_ROOM")
    assert await names(site, "reservations?reason=waits_for_room&sort=node", "key") == ["large", "big"]
    assert await names(site, "reservations?reason=queue_stopped", "key") == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("sort=colour", "sort: colour is none of allocated, allocations,"),
        ("sort=name&after=many", "after: many is no cursor of the order name"),
        (f"sort={'x' * 300}", "sort: 300 characters, 256 are allowed"),
    ],
)
async def test_an_unknown_order_is_refused(town: Site, query: str, text: str) -> None:
    """The answer names the parameter and the value."""
    refusal = await town.refused(f"{MINE}/applications?{query}")
    assert refusal["status_code"] == 400
    assert text in refusal["message"]


async def test_a_cursor_of_another_order_is_refused(town: Site) -> None:
    """A cursor of another list with an order of the same name is refused as well."""
    cursor = (await town.get(f"{MINE}/applications?sort=name&limit=1"))["next"]
    assert (await town.refused(f"{MINE}/applications?sort=-name&after={cursor}"))["status_code"] == 400
    cursor = listing.Order("name").cursor((1, "x"))
    assert (await town.refused(f"{MINE}/applications?sort=name&after={cursor}"))["status_code"] == 400
