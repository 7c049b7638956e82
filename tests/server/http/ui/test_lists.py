"""The lists of the page, in pages."""

import pytest

from licorne_server.http import pages
from support.core.builders import app, apps, ask, asks, node, nodes, release, releases
from support.server.http_site import API, MINE, Site


async def names(site: Site, path: str, key: str = "id") -> list[str]:
    """The rows of a page by their names."""
    return [row[key] for row in (await site.get(f"{MINE}/{path}"))["rows"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=RUN", ["runner"]),
        ("q=bob", ["waiter"]),
        ("user=bob", ["waiter"]),
        ("user=bo", []),
        ("group=nobody", []),
        ("queue=root", ["runner", "waiter"]),
        ("queue=root.full", ["waiter"]),
        ("queue=root.ful", []),
        ("status=running", ["runner", "waiter"]),
        ("status=new", []),
        ("waiting=1", ["waiter"]),
        ("state=completed", []),
    ],
)
async def test_applications_are_picked(town: Site, query: str, found: list[str]) -> None:
    """The filters are a part of id or user, a queue with its descendants, the state, and waiting asks."""
    assert await names(town, f"applications?{query}") == found


async def test_an_application_that_has_ended_is_found_by_its_name(town: Site) -> None:
    """Its id may belong to another one by now."""
    town.driver.do(releases(release("runner", "r1")))
    town.driver.wait(60)
    town.driver.do(apps(app("runner", "root.runs", user="new")))
    [row] = (await town.get(f"{MINE}/applications?state=completed"))["rows"]
    assert row["id"] == "runner" != row["name"]
    found = await town.get(f"{MINE}/application/{row['name']}")
    assert (found["user"], found["state"]) == ("ann", "Completed")
    assert (await town.get(f"{MINE}/application/runner"))["user"] == "new"


async def test_pages_follow_one_another(town: Site) -> None:
    """`next` of one is where the next begins, and the last has none."""
    town.driver.do(apps(*(app(f"more-{number}", "root.runs") for number in range(5))))
    seen, after = [], ""
    while True:
        answer = await town.get(f"{MINE}/applications?limit=2&after={after}")
        assert len(answer["rows"]) <= 2
        seen += [row["id"] for row in answer["rows"]]
        after = answer["next"]
        if not after:
            break
    assert seen == ["more-0", "more-1", "more-2", "more-3", "more-4", "runner", "waiter"]


async def test_a_search_looks_at_so_much_at_a_time(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may be empty and have a successor, which continues the search."""
    monkeypatch.setattr(pages, "MAX_LOOKED_AT", 1)
    answer = await town.get(f"{MINE}/applications?q=waiter")
    assert (answer["rows"], answer["next"], answer["lookedAt"]) == ([], "runner", 1)
    answer = await town.get(f"{MINE}/applications?q=waiter&after=runner")
    assert [row["id"] for row in answer["rows"]] == ["waiter"]


async def test_asks_come_in_their_order_with_what_passed_them_over(town: Site) -> None:
    """Pages count rows, as asks have no names for tokens."""
    town.driver.do(asks(*(ask("waiter", f"x{number}", vcore=1500) for number in range(3))))
    path = "application/waiter/asks?limit=3"
    answer = await town.get(f"{MINE}/{path}")
    assert (answer["total"], answer["next"]) == (4, "3")
    assert [row["allocationKey"] for row in answer["rows"]] == ["w2", "x0", "x1"]
    assert "queue quota" in answer["rows"][0]["allocationLog"][-1]["message"]
    assert await names(town, f"{path}&offset=3", "allocationKey") == ["x2"]
    assert await names(town, f"{path}&q=X1", "allocationKey") == ["x1"]


async def test_allocations_say_where_they_are(town: Site) -> None:
    """They are found by key and by node."""
    [row] = (await town.get(f"{MINE}/application/runner/allocations"))["rows"]
    assert row["allocationKey"] == "r1"
    assert await names(town, f"application/runner/allocations?q={row['nodeId']}", "allocationKey")
    assert not await names(town, "application/runner/allocations?q=nowhere", "allocationKey")


async def test_nodes_are_picked(town: Site) -> None:
    """The filters are a part of the id, and the state."""
    town.driver.do(nodes(node("other", vcore=1000)))
    assert await names(town, "nodes") == ["n1", "n2", "other"]
    assert await names(town, "nodes?q=N2") == ["n2"]
    assert await names(town, "nodes?state=drained") == []
    assert await names(town, "nodes?state=schedulable&limit=1") == ["n1"]
    assert await names(town, "nodes?state=reserved") == []


async def test_users_and_groups_say_what_they_have(town: Site) -> None:
    """The list has totals over all queues, the detail each queue."""
    assert await names(town, "usage?kind=user", "name") == ["ann", "bob"]
    assert await names(town, "usage?kind=user&q=B", "name") == ["bob"]
    assert await names(town, "usage?kind=group", "name") == []
    one = await town.get(f"{MINE}/usage/user/ann")
    assert one["applications"] == [["runner", ""]]
    assert [row["queue"] for row in one["queues"]] == ["root", "root.runs"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("applications?state=odd", "state: odd is none of active, rejected, completed"),
        ("applications?limit=many", "limit: many is not a whole number"),
        (f"applications?q={'x' * 300}", "q: 300 characters, 256 are allowed"),
        ("nodes?state=blue", "state: blue is none of"),
        ("usage?kind=dog", "kind: dog is none of user, group"),
        ("preemptions?before=-1", "before: -1 is not a whole number"),
    ],
)
async def test_what_cannot_be_meant_is_refused(town: Site, path: str, text: str) -> None:
    """The answer names the parameter and the value."""
    refusal = await town.refused(f"{MINE}/{path}")
    assert refusal["status_code"] == 400
    assert text in refusal["message"]


@pytest.mark.parametrize(
    "path", ["application/none/asks", "application/none", "node/none", "queue/root.none"]
)
async def test_what_is_not_there_is_not_found(town: Site, path: str) -> None:
    """The answer names the missing object."""
    refusal = await town.refused(f"{MINE}/{path}")
    assert refusal["status_code"] == 404
    assert "none" in refusal["message"]
    assert (await town.refused(f"{API}/partition/elsewhere/nodes"))["status_code"] == 404
