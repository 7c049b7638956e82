"""Repeated keys: resizes, and repetitions without effect (spec § 5.3.5)."""

import pytest

from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.contents import digest_of
from support.core.driver import DEFAULT, Driver
from support.core.steps import last, listed

COUNTED = (
    "._registry.agenda._places['[rm1]default'].partition.allocations._asks._placeholders._counters"
    ".asks_received"
)
SMALL = config("[{name: a, resources: {max: {vcore: 10m}}}]")


def town() -> Driver:
    """A queue with a maximum of 10 cores, two empty nodes, and an application without asks."""
    made = Driver()
    made.do(register(SMALL), nodes(node("n1", vcore=20), node("n2", vcore=20)))
    made.do(apps(app("job", "root.a", user="sue")))
    return made


@pytest.mark.row(111)
def test_a_resize_changes_only_the_size() -> None:
    """A resize keeps the priority and age of a pending ask, and the node of an allocation."""
    core = town()
    first = ask("job", "k1", vcore=11, priority=5, created=core.now - 9)
    core.do(asks(first, ask("job", "k2", vcore=4)))
    core.do(asks(ask("job", "k1", vcore=12, priority=-1), ask("job", "k2", on_node="n2", vcore=4)))
    pending = last(core.views.asks(DEFAULT, "job"))
    assert (pending.ask.priority, pending.request_time) == (5, core.now - 9)
    assert (pending.ask.ask_class.resources, core.app("job").pending) == ({"vcore": 12}, {"vcore": 12})
    assert [held.node_id for held, *_ in listed(core.views.allocations(DEFAULT, "job"))] == ["n1"]


@pytest.mark.row(111, 112)
def test_a_repeated_ask_changes_nothing() -> None:
    """A repeated ask, and a repeated allocation, change only the count of asks."""
    core = town()
    known = [ask("job", "k1", vcore=4), ask("job", "k2", vcore=11)]
    core.do(asks(*known))
    before = digest_of(core.scheduler)
    again = [ask("job", "k1", on_node="n1", vcore=4), ask("job", "k2", vcore=11)]
    assert core.do(asks(*again, *known[:2])) == []
    after = digest_of(core.scheduler)
    assert [way for way in before if before[way] != after.get(way)] == [COUNTED]
    assert before.keys() == after.keys()
