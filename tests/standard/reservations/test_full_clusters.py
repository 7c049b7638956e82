"""Reservations in a full cluster: which asks obtain one, and which asks may use the node (spec § 8.5)."""

from typing import NamedTuple

import pytest

from licorne_core.messages.commands import NodeAction
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, placed, reserved


class Job(NamedTuple):
    """An application of one ask, with the times of its submission and its run in seconds."""

    submitted: int
    runs: int
    vcore: int


def starts(core: Driver, jobs: dict[str, Job], seconds: int) -> dict[str, int]:
    """The second in which each job starts, within this number of seconds."""
    began: dict[str, int] = {}
    start = core.now
    for second in range(seconds):
        made = placed(core.wait(start + second - core.now))
        for name in [name for name, at in began.items() if second == at + jobs[name].runs]:
            made += placed(core.do(releases(release(name, name))))
        for name, job in jobs.items():
            if job.submitted == second:
                core.do(apps(app(name, "root.a")))
                made += placed(core.do(asks(ask(name, name, vcore=job.vcore))))
        began |= {key: second for _, key, _ in made}
    return began


def full(*sizes: int) -> Driver:
    """Nodes of 10 thousandths of a core, each with an allocation of one of these sizes."""
    core = Driver()
    core.do(register(config("[{name: a}, {name: b}]")))
    core.do(nodes(*(node(f"n{number}", vcore=10) for number in range(1, len(sizes) + 1))))
    core.do(apps(app("run", "root.a"), app("a", "root.a"), app("b", "root.b")))
    core.do(asks(*(ask("run", f"r{n}", vcore=size) for n, size in enumerate(sizes, 1))))
    return core


@pytest.mark.parametrize(("vcore", "kept"), [(5, {}), (6, {"a1": "n1"})])
def test_only_a_large_ask_has_a_node_reserved(vcore: int, kept: dict[str, str]) -> None:
    """Only an ask larger than half of every node has a node reserved."""
    core = full(9, 9)
    core.do(asks(ask("a", "a1", vcore=vcore)))
    core.wait(3)
    assert reserved(core) == kept


def test_an_ask_above_a_maximum_has_no_node_reserved() -> None:
    """No node is reserved for an ask that exceeds the maximum of its queue."""
    core = Driver()
    core.do(register(config("[{name: a, resources: {max: {vcore: 5m}}}, {name: b}]")))
    core.do(nodes(node("n1", vcore=10)))
    core.do(apps(app("a", "root.a"), app("b", "root.b")))
    core.do(asks(ask("b", "b1", vcore=9), ask("a", "a1", vcore=6)))
    core.wait(3)
    assert reserved(core) == {}


def test_the_older_ask_starts_first_on_any_free_node() -> None:
    """The older `g`, which needs a node of 16, starts before the younger `k`, which needs half of a node."""
    core = Driver()
    core.do(register(config("[{name: a}]")))
    core.do(nodes(*(node(f"n{number}", vcore=16) for number in (1, 2, 3))))
    jobs = {
        "a": Job(0, 300, 8),
        "b": Job(20, 20, 8),
        "c": Job(23, 90, 16),
        "d": Job(33, 300, 4),
        "e": Job(53, 90, 4),
        "g": Job(73, 20, 16),
        "h": Job(73, 300, 8),
        "k": Job(83, 50, 8),
    }
    began = starts(core, jobs, 140)
    assert (began["g"], began["k"]) == (113, 133)


def test_a_reserved_node_is_used_by_the_first_ask_of_its_size() -> None:
    """The first ask in the order of queues uses the room, and the ask with the reservation is next."""
    core = full(10, 10)
    core.do(asks(ask("a", "a1", vcore=10)))
    core.wait(3)
    assert reserved(core) == {"a1": "n1"}
    core.do(asks(ask("b", "b1", vcore=10)))
    assert placed(core.do(releases(release("run", "r1")))) == [("b", "b1", "n1")]
    assert reserved(core) == {"a1": "n1"}
    assert placed(core.do(releases(release("b", "b1")))) == [("a", "a1", "n1")]


def test_a_drained_node_is_used_by_the_ask_that_has_it_reserved() -> None:
    """A drained node accepts the ask that has it reserved, and no other ask of the same size."""
    core = full(10, 10)
    core.do(asks(ask("a", "a1", vcore=10)))
    core.wait(3)
    core.do(asks(ask("b", "b1", vcore=10)), nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert placed(core.do(releases(release("run", "r1")))) == [("a", "a1", "n1")]


def test_a_queue_preempts_on_a_node_reserved_in_a_full_cluster() -> None:
    """A queue reclaims its guarantee on a node that is reserved in a full cluster."""
    core = Driver()
    queues = (
        "[{name: a}, {name: b, resources: {guaranteed: {vcore: 4m}}, properties: {preemption.delay: 1s}}]"
    )
    core.do(register(config(queues)))
    core.do(nodes(node("n1", vcore=10)))
    core.do(apps(app("a", "root.a"), app("b", "root.b")))
    core.do(
        asks(
            ask("a", "a1", vcore=5, policy="s"), ask("a", "a2", vcore=5, policy="s"), ask("a", "a3", vcore=9)
        )
    )
    core.wait(3)
    assert reserved(core) == {"a3": "n1"}
    core.do(asks(ask("b", "b1", vcore=4, policy="o")))
    core.wait(2)
    assert reserved(core) == {"b1": "n1"}
