"""The node order `auto` packs only while asks lack a node (spec § 7.5)."""

from collections import Counter
from itertools import count as numbers

import pytest

from licorne_core.handlers.turn import LOOK_TIME
from licorne_core.messages.commands import NodeAction, Tick
from licorne_core.values.asks import AskClass
from licorne_core.values.slices import Tuning
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import Driver, placed

QUEUES = "[{name: a, resources: {max: {vcore: 100m}}}, {name: b}]"

NUMBERS = numbers()


def cluster(*, rest: str = "", size: int = 10, count: int = 3, tuning: Tuning | None = None) -> Driver:
    """Nodes n00, n01, … of this number of cores, each with one core used; no ask waits."""
    core = Driver(tuning=tuning)
    core.do(register(config(QUEUES, rest=rest)), apps(app("one", "root.a"), app("two", "root.b")))
    core.do(nodes(*(node(f"n{number:02}", vcore=size) for number in range(count))))
    core.do(asks(*(ask("two", f"f{number:02}", vcore=1, on_node=f"n{number:02}") for number in range(count))))
    return core


def where(core: Driver, *sizes: int) -> list[str]:
    """Submit asks of these sizes one by one; return their nodes."""
    found = []
    for size in sizes:
        found += [on for _, _, on in placed(core.do(asks(ask("two", f"k{next(NUMBERS)}", vcore=size))))]
    return found


def test_nodes_are_packed_while_an_ask_lacks_a_node() -> None:
    """Nodes are packed while an ask lacks a node and for ten seconds afterwards, and otherwise spread."""
    core = cluster()
    assert where(core, 1, 1, 1) == ["n00", "n01", "n02"]
    core.do(asks(ask("two", "large", vcore=10)))
    assert where(core, 1, 1, 1) == ["n00"] * 3
    core.wait(5 * LOOK_TIME)
    assert where(core, 1, 1) == ["n00"] * 2
    core.do(releases(release("two", "large")))
    assert where(core, 1) == ["n00"]
    core.wait(2 * LOOK_TIME)
    assert where(core, 1, 1) == ["n01", "n02"]


@pytest.mark.parametrize(
    "waiting",
    [
        ask("two", "vast", vcore=11),
        ask("two", "shape", vcore=10, memory=9),
        ask("two", "daemon", vcore=10, required_node="n03"),
        ask("one", "bounded", vcore=10),
    ],
    ids=["larger than any node", "of a shape of no node", "for one node", "over a maximum"],
)
def test_an_ask_too_large_for_any_node_keeps_nodes_spread(waiting: object) -> None:
    """An ask that no order of nodes could help does not change the order."""
    core = cluster(count=4)
    core.do(reload(config(QUEUES.replace("100m", "5m"))), nodes(node("wide", vcore=1, memory=9)))
    core.do(asks(ask("two", "fills", vcore=1, on_node="wide")))
    core.do(asks(waiting))  # type: ignore[arg-type]
    core.wait(1)
    assert where(core, 1, 1, 1) == ["n00", "n01", "n02"]


def test_asks_that_need_more_than_is_free_are_packed_from_the_first() -> None:
    """If asks arrive together that need more than is free, the first one is packed as well."""
    core = cluster()
    some = [ask("two", f"k{number}", vcore=1) for number in range(9)]
    made = placed(core.do(asks(*some, *(ask("two", f"large{number}", vcore=10) for number in range(2)))))
    assert [on for _, _, on in made] == ["n00"] * 9


def test_asks_of_several_messages_are_packed_together() -> None:
    """Asks that wait for their turn count with those of later messages."""
    core = cluster()
    for part in range(3):
        core.send(asks(*(ask("two", f"k{part}-{number}", vcore=1) for number in range(10))))
        core.send(Tick(decisions=1))
    assert core.partition.nodes.order.packs is not None


@pytest.mark.parametrize(
    ("name", "size", "memory", "count"),
    [
        ("two", 1, 0, 26),
        ("one", 1, 0, 90),
        ("two", 11, 0, 9),
        ("two", 10, 9, 9),
        ("late", 1, 0, 90),
        ("three", 1, 0, 90),
    ],
    ids=["room for all", "a maximum", "too large", "a shape of no node", "no more applications", "a user"],
)
def test_asks_that_arrive_together_are_spread(name: str, size: int, memory: int, count: int) -> None:
    """Asks that arrive together are spread if those that could start need no more than is free."""
    core = cluster()
    core.do(nodes(node("wide", vcore=1, memory=90)), asks(ask("two", "fills", vcore=1, on_node="wide")))
    limits = "[{limit: '', users: [ann], maxresources: {vcore: 4m}}]"
    queues = f"{{name: c, limits: {limits}}}, {{name: d, maxapplications: 1}}]"
    core.do(reload(config(QUEUES.replace("100m", "5m").replace("]", f", {queues}"))))
    core.do(apps(app("three", "root.c", user="ann"), app("first", "root.d"), app("late", "root.d")))
    core.do(asks(ask("first", "k", vcore=1)))
    core.do(asks(*(ask(name, f"k{number}", vcore=size, memory=memory) for number in range(count))))
    assert core.partition.nodes.order.packs is None


def test_two_shapes_fill_all_nodes_together() -> None:
    """Fair queues with asks for 1 core and 4 of memory, and for 3 and 1, fill nodes of 9 and 18."""
    core = Driver()
    core.do(register(config("[{name: a}, {name: b}]")), apps(app("a", "root.a"), app("b", "root.b")))
    some = [ask("a", f"a{number}", vcore=1, memory=4) for number in range(60)]
    core.do(asks(*some, *(ask("b", f"b{number}", vcore=3, memory=1) for number in range(60))))
    made = placed(core.do(nodes(*(node(f"n{number}", vcore=9, memory=18) for number in range(10)))))
    assert Counter(name for name, _, _ in made) == {"a": 30, "b": 20}


def test_withdrawn_asks_are_no_reason_to_pack() -> None:
    """Asks that are withdrawn before their turn do not count, and are not kept."""
    core = cluster()
    core.send(asks(*(ask("two", f"k{number}", vcore=1) for number in range(90))))
    core.send(releases(release("two")))
    assert not core.partition.wakeups.backlog.untried
    core.do(asks(ask("two", "a", vcore=1), ask("two", "b", vcore=1)))
    assert core.partition.nodes.order.packs is None


def test_a_reload_of_weights_keeps_nodes_packed() -> None:
    """After a reload of weights the order is rebuilt, and nodes are still packed."""
    core = cluster()
    core.do(asks(ask("two", "large", vcore=10)))
    core.do(reload(config(QUEUES, rest="nodesortpolicy: {type: auto, resourceweights: {vcore: 2.0}}")))
    assert where(core, 1, 1) == ["n00"] * 2


def test_a_reload_replaces_a_reorder_in_progress() -> None:
    """A reload during a reorder puts its own order in force, not that of the interrupted reorder."""
    core = cluster(count=200, tuning=Tuning(timeout_size=1))
    core.begin(asks(ask("two", "large", vcore=10)))
    core.begin(Tick())
    core.begin(Tick())
    assert core.partition.job is not None
    core.do(reload(config(QUEUES, rest="nodesortpolicy: fair")))
    assert where(core, 1, 1, 1) == ["n00", "n01", "n02"]
    core.wait(2 * LOOK_TIME)
    assert not core.partition.nodes.order.packs


def test_a_reorder_follows_nodes_added_and_removed_meanwhile() -> None:
    """A node that is added during a reorder has its place in the order, and a removed node has none."""
    core = cluster(count=90, tuning=Tuning(timeout_size=1))
    core.do(asks(ask("two", "more", vcore=5, on_node="n89")))
    core.begin(asks(ask("two", "large", vcore=10)))
    for number in range(30):
        core.begin(Tick())
        core.begin(nodes(node(f"x{number:02}", vcore=8), node(f"n{number:02}", NodeAction.DECOMISSION)))
    assert core.partition.job is not None
    core.run()
    kept = [f"n{number}" for number in range(30, 89)]
    in_order = [node.node_id for node in core.partition.index.ahead(AskClass.of({"vcore": 1}), 99)]
    assert in_order == ["n89", *kept, *(f"x{number:02}" for number in range(30))]
