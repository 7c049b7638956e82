"""The counted reasons for which asks wait."""

from collections import Counter

import pytest

from licorne_core.messages.reports import WaitingAsks
from licorne_core.model.nodes.book import MOST_SIZES
from licorne_core.values.ids import PartitionName
from licorne_core.values.tags import RUNTIME
from licorne_core.views import reasons
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")


def found(driver: Driver) -> list[WaitingAsks]:
    """All rows of the report, without the pauses."""
    return [row for row in driver.views.reasons(DEFAULT) if row is not None]


def waiting(driver: Driver) -> dict[tuple[str, str, str], int]:
    """The number of asks by queue, code and subject."""
    return {(row.queue, row.code, row.subject): row.asks for row in found(driver)}


def test_asks_are_counted_by_blocker_and_subject() -> None:
    """The subject is the queue at its maximum, which may be above the leaf, or the user in a queue."""
    limits = "limits: [{limit: x, users: [bob], maxresources: {vcore: 2m}}]"
    driver = Driver()
    driver.do(
        register(config("[{name: a, queues: [{name: b}], resources: {max: {vcore: 4m}}}]", rest=limits)),
        nodes(node("n1", vcore=10), node("n2", vcore=2, memory=5)),
        apps(app("one", "root.a.b"), app("two", "root.a.b", user="bob")),
        asks(ask("two", "b0", vcore=1)),
        asks(*[ask("one", f"a{n}", vcore=3) for n in range(4)], ask("two", "b1", vcore=2)),
    )
    assert waiting(driver) == {
        ("root.a.b", "QUEUE_MAX_EXCEEDED", "root.a"): 3,
        ("root.a.b", "USER_QUOTA_EXCEEDED", "bob in root"): 1,
    }
    [queue, user] = found(driver)
    assert (queue.resources, queue.app_id, user.key) == ({"vcore": 9}, "one", "b1")


def test_the_cause_of_a_class_is_its_most_frequent_shortage() -> None:
    """Asks of a class count under the shortage that most nodes have; an unknown required node is one, too.

    Those that can never start count under both amounts.
    """
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(*[node(f"n{n}", vcore=4, memory=5) for n in range(3)], node("m", vcore=1, memory=9)),
        apps(app("one", "root.a")),
        asks(*[ask("one", f"a{n}", vcore=3) for n in range(3)]),
        asks(ask("one", "b1", vcore=2), ask("one", "b2", vcore=2), ask("one", "wide", vcore=4, memory=6)),
        asks(*[ask("one", f"gone{n}", vcore=n, memory=6, required_node="x") for n in (1, 4)]),
    )
    driver.do(asks(ask("one", "huge", vcore=5), ask("one", "huge2", vcore=5)))
    causes: dict[str, Counter[str]] = {"NO_NODE_FITS": Counter(), "NEVER_FITS": Counter()}
    for row in found(driver):
        causes[row.code].update(dict(row.causes))
    assert causes["NO_NODE_FITS"] == {"full: vcore": 2, reasons.NOT_REGISTERED: 2}
    assert causes["NEVER_FITS"] == {
        "vcore=5m of at most vcore=4m on a node": 2,
        "memory=6,vcore=4m of at most memory=5,vcore=4m together on the closest node": 1,
    }


def test_asks_of_a_shape_that_no_node_has_had_can_never_start() -> None:
    """The closest capacity needs the smallest factor; beyond `MOST_SIZES`, only single types are compared."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(*[node(f"n{n}", vcore=10 + n, memory=200 - n) for n in range(MOST_SIZES)]),
        apps(app("one", "root.a")),
        asks(ask("one", "shape", vcore=60, memory=190), ask("one", "huge", vcore=99)),
    )
    shape = "memory=190,vcore=60m of at most memory=159,vcore=51m together on the closest node"
    huge = "vcore=99m of at most vcore={}m on a node"
    assert [row.causes for row in found(driver)] == [{shape: 1, huge.format(73): 1}]
    driver.do(nodes(node("more", vcore=74, memory=137)))
    assert [row.causes for row in found(driver)] == [{shape: 1, huge.format(74): 1}]
    driver.do(nodes(node("other", vcore=9, memory=201)))
    assert {row.code: row.asks for row in found(driver)} == {"NEVER_FITS": 1, "NO_NODE_FITS": 1}


def test_asks_that_would_delay_a_shadow_start_have_that_reason() -> None:
    """Asks that would delay a shadow start count under that reason; the holder lacks room on nodes."""
    driver = Driver()
    large = [ask("two", f"l{n}", vcore=9, tags={RUNTIME: "50"}) for n in range(2)]
    driver.do(
        register(config("[{name: a}]", properties="{backfill: easy}")),
        nodes(node("n1", vcore=10), *[node(f"s{n}", vcore=1) for n in range(20)]),
        apps(app("one", "root.a"), app("two", "root.a"), app("three", "root.a")),
        asks(ask("one", "runs", vcore=1, tags={RUNTIME: "100"})),
        asks(ask("one", "fills", vcore=2, tags={RUNTIME: "100"})),
        asks(*large),
        asks(ask("three", "late", vcore=2), ask("three", "wide", vcore=8)),
    )
    assert waiting(driver) == {
        ("root.a", "NO_NODE_FITS", ""): 3,
        ("root.a", "BEHIND_RESERVATION", ""): 1,
    }
    [behind] = [row for row in found(driver) if row.code == "BEHIND_RESERVATION"]
    assert (behind.app_id, behind.key, dict(behind.causes)) == ("three", "late", {})


def test_very_many_classes_are_compared_with_only_some_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound on comparisons asks count under the scheduler's code, with an unknown cause."""
    monkeypatch.setattr(reasons, "MOST_LOOKS", 20)
    monkeypatch.setattr(reasons, "LEAST_NODES", 2)
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(*[node(f"n{n}", vcore=4) for n in range(10)], node("m", vcore=4, memory=40)),
        apps(app("one", "root.a")),
        asks(ask("one", "f", vcore=1, on_node="m")),
        asks(*[ask("one", f"k{n}", vcore=4, memory=5 + n) for n in range(30)]),
    )
    [row] = found(driver)
    assert (row.code, row.asks) == ("NO_NODE_FITS", 30)
    assert row.causes == {"too small: memory": 20, reasons.UNKNOWN: 10}
