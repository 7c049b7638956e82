"""The timeline of an application's asks: when they waited, ran and were stopped."""

from dataclasses import replace
from typing import Any

import pytest

from licorne_core.messages.preemption import PreemptionRule
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_server.http.ui import times
from support.core.builders import RM, ask, asks, release, releases, victim
from support.server.http_site import MINE, Site

PATH = f"{MINE}/application/runner/timeline"


def noted(site: Site) -> None:
    """Record the events in the RM's log."""
    site.events.begin(RmId(RM))
    site.events.get(RM).append(list(site.driver.facts))


def kinds(row: dict[str, Any]) -> list[str]:
    """The phases of a row by their kinds."""
    return [phase["kind"] for phase in row["phases"]]


async def test_waiting_running_and_ended_asks_are_listed(town: Site) -> None:
    """The latest is first; each phase lasts until the next one, and a running one has no end."""
    town.driver.wait(10)
    town.driver.do(asks(ask("runner", "r2", vcore=1000), ask("runner", "huge", vcore=9000)))
    town.driver.wait(10)
    town.driver.do(releases(release("runner", "r2"), release("runner", "huge")))
    town.driver.do(asks(ask("runner", "more", vcore=9000)))
    noted(town)
    found = await town.get(PATH)
    rows = {row["key"]: row for row in found["rows"]}
    assert next(iter(rows)) == "more"
    assert {key: (kinds(row), row["end"]) for key, row in rows.items()} == {
        "more": (["waiting"], ""),
        "r2": (["waiting", "running"], "released"),
        "huge": (["waiting"], "cancelled"),
        "r1": (["waiting", "running"], ""),
    }
    assert rows["r1"]["phases"][-1]["to"] is None
    waited, ran = rows["r2"]["phases"]
    assert waited["to"] == ran["from"]
    assert ran["to"] - ran["from"] >= 10_000
    assert rows["huge"]["phases"][0]["to"] == ran["to"]
    assert (rows["r2"]["node"] != "", rows["r2"]["resources"]) == (True, {"vcore": 1000})
    assert found["from"] <= rows["r1"]["phases"][0]["from"] < found["to"]
    assert found["more"] == 0


@pytest.mark.parametrize("rule", PreemptionRule)
async def test_each_rule_of_a_stop_has_a_text(town: Site, rule: PreemptionRule) -> None:
    """The timeline has the rule of every stop."""
    stopped = victim("r1", "runner", time=town.driver.now + 5)
    record = replace(stopped, app_id=AppId("runner"), key=AllocationKey("r1"), rule=rule)
    town.driver.scheduler.partitions[PartitionName("[rm1]default")].ledger.note(record)
    town.driver.wait(10)
    [row] = (await town.get(PATH))["rows"]
    assert row["why"]


async def test_the_rows_of_a_timeline_are_bounded(town: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest rows are displayed, and the others counted."""
    monkeypatch.setattr(times, "MAX_ROWS", 2)
    for number in range(7):
        town.driver.wait(1)
        town.driver.do(asks(ask("runner", f"x{number}", vcore=1)))
    found = await town.get(PATH)
    assert [row["key"] for row in found["rows"]] == ["x6", "x5"]
    assert found["more"] == 6


async def test_an_ended_application_has_its_timeline(town: Site) -> None:
    """An ended application is found under its unique name, without later data of its id."""
    town.driver.do(releases(release("runner", "r1")))
    town.driver.wait(60)
    noted(town)
    [ended] = (await town.get(f"{MINE}/applications?state=completed"))["rows"]
    found = await town.get(f"{MINE}/application/{ended['name']}/timeline")
    assert [(row["key"], row["end"]) for row in found["rows"]] == [("r1", "released")]
    assert found["to"] == ended["finished"]
    assert (await town.refused(f"{MINE}/application/nobody/timeline"))["status_code"] == 404
