"""Paged lists of the page."""

import pytest

from licorne_server.http import pages
from support.core.builders import app, apps, ask, asks, release, releases
from support.server.http_site import MINE, Site


async def names(site: Site, path: str, key: str = "id") -> list[str]:
    """The rows of a page by their names."""
    return [row[key] for row in (await site.get(f"{MINE}/{path}"))["rows"]]


async def test_an_ended_application_is_listed_under_its_unique_name(town: Site) -> None:
    """An ended application has a unique name, as its id may belong to another one by now."""
    town.driver.do(releases(release("runner", "r1")))
    town.driver.wait(60)
    town.driver.do(apps(app("runner", "root.runs", user="new")))
    [row] = (await town.get(f"{MINE}/applications?state=completed"))["rows"]
    assert row["id"] == "runner" != row["name"]
    found = await town.get(f"{MINE}/application/{row['name']}")
    assert (found["user"], found["state"]) == ("ann", "Completed")
    assert (await town.get(f"{MINE}/application/runner"))["user"] == "new"


async def test_pages_are_contiguous(town: Site) -> None:
    """`next` of one page is the begin of the next page, and the last page has none."""
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


async def test_a_filter_examines_a_bounded_number_of_rows(
    town: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be empty and have a successor, which continues the search."""
    monkeypatch.setattr(pages, "MAX_LOOKED_AT", 1)
    answer = await town.get(f"{MINE}/applications?q=waiter")
    assert (answer["rows"], answer["next"], answer["lookedAt"]) == ([], "runner", 1)
    answer = await town.get(f"{MINE}/applications?q=waiter&after=runner")
    assert [row["id"] for row in answer["rows"]] == ["waiter"]


async def test_asks_are_listed_in_their_order(town: Site) -> None:
    """Pages count rows, because asks have no names for tokens; each ask has the asks that overtook it."""
    town.driver.do(asks(*(ask("waiter", f"x{number}", vcore=1500) for number in range(3))))
    path = "application/waiter/asks?limit=3"
    answer = await town.get(f"{MINE}/{path}")
    assert (answer["total"], answer["next"]) == (4, "3")
    assert [row["allocationKey"] for row in answer["rows"]] == ["w2", "x0", "x1"]
    assert "queue quota" in answer["rows"][0]["allocationLog"][-1]["message"]
    assert await names(town, f"{path}&offset=3", "allocationKey") == ["x2"]
    assert await names(town, f"{path}&q=X1", "allocationKey") == ["x1"]
