"""Changes with which a waiting ask starts, each confirmed on a copy."""

from copy import deepcopy
from itertools import product

import pytest

from licorne_core.messages.commands import Command, NodeAction
from licorne_core.messages.plans import StartTrial, WaitingAskName
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_core.whatif import starting
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    foreign,
    node,
    nodes,
    register,
    release,
    releases,
)
from support.core.driver import Driver

QUEUES = (
    "[{name: a, resources: {max: {vcore: 4m}}}, {name: b}, {name: one, maxapplications: 1}, "
    "{name: limited, limits: [{limit: all, users: [ann], maxresources: {vcore: 2m}}]}, "
    "{name: p, resources: {max: {vcore: 1m}}, queues: [{name: q, resources: {max: {vcore: 1m}}, queues: "
    "[{name: r, resources: {max: {vcore: 1m}}, queues: [{name: s, resources: {max: {vcore: 1m}}, "
    "queues: [{name: t, resources: {max: {vcore: 1m}}}]}]}]}]}]"
)
REST = "preemption: {enabled: false}"


def begun(*sizes: int, running: tuple[str, int] = ("root.b", 1)) -> Driver:
    """A core with nodes of these milli-cores, and running allocations of 1 milli-core in the given queue."""
    driver = Driver()
    driver.do(register(config(QUEUES, rest=REST)))
    driver.do(nodes(*(node(f"n{at}", vcore=size) for at, size in enumerate(sizes))))
    queue, count = running
    driver.do(apps(app("old", queue)), asks(*(ask("old", f"k{at}", vcore=1) for at in range(count))))
    return driver


def outcomes(driver: Driver, app_id: str, key: str) -> list[str]:
    """The texts of confirmed trials; trials without other asks are made only if no other is confirmed."""
    name = WaitingAskName(RmId("rm1"), "default", AppId(app_id), AllocationKey(key))
    confirmed: list[StartTrial] = []
    for alone, adds_node in product((False, True), repeat=2):
        if alone and confirmed and not adds_node:
            break
        found = deepcopy(driver.scheduler).plan_start(name, driver.now, adds_node=adds_node, alone=alone)
        assert found.complete
        trial = deepcopy(driver.scheduler).plan_start(name, driver.now, changes=found.changes)
        assert trial.starts == found.starts
        if trial.starts and trial not in confirmed:
            confirmed.append(trial)
    return [trial.text() for trial in confirmed]


def test_a_trial_says_if_it_has_victims_or_did_not_ask_the_rm() -> None:
    """The text of a trial says if allocations are stopped first, and if the RM may refuse the node."""
    trial = StartTrial(changes=(), node_id="n1", stopped=3, unasked=True)
    assert trial.text() == (
        "it starts without any change, on n1 once 3 allocations are stopped, if its RM accepts the node"
    )


CASES = {
    "a maximum is raised by what is missing": (
        ((10,), ("root.a", 3)),
        ("root.a", [2]),
        ["with the maximum of queue root.a at vcore=5m it starts at once on n0"],
    ),
    "others are ahead of it": (
        ((20,), ("root.a", 3)),
        ("root.a", [2, 3, 1, 2]),
        ["with the maximum of queue root.a at vcore=11m it starts at once on n0, after 2 other asks"],
    ),
    "a smaller ask passes those ahead of it": (
        ((20,), ("root.a", 4)),
        ("root.a", [3, 1]),
        ["with the maximum of queue root.a at vcore=5m it starts at once on n0"],
    ),
    "a limit of a user": (
        ((10,), ("root.limited", 2)),
        ("root.limited", [1]),
        ["with the limit of user ann in queue root.limited at vcore=3m it starts at once on n0"],
    ),
    "applications that run": (
        ((10,), ("root.one", 1)),
        ("root.one", [1]),
        ["with 2 running applications allowed for queue root.one it starts at once on n0"],
    ),
    "the nodes are full": (
        ((3, 4), ("root.b", 7)),
        ("root.b", [2]),
        [
            "with node n0 free of its 3 allocations it starts at once on n0",
            "with one more node of vcore=4m it starts at once on the new node",
        ],
    ),
    "the second node has fewer allocations": (
        ((4, 3), ("root.b", 7)),
        ("root.b", [2]),
        [
            "with node n1 free of its 3 allocations it starts at once on n1",
            "with one more node of vcore=4m it starts at once on the new node",
        ],
    ),
    "a maximum and a node too small": (
        ((10,), ("root.a", 1)),
        ("root.a", [12]),
        [
            (
                "with the maximum of queue root.a at vcore=13m and one more node of vcore=12m "
                "it starts at once on the new node"
            ),
        ],
    ),
    "others would take the node": (
        ((4,), ("root.b", 4)),
        ("root.b", [4, 4]),
        [
            "with node n0 free of its 4 allocations and no other ask waiting it starts at once on n0",
            "with one more node of vcore=4m and no other ask waiting it starts at once on the new node",
        ],
    ),
    "others would take the node and the maximum": (
        ((4,), ("root.a", 4)),
        ("root.a", [4, 4]),
        [
            (
                "with the maximum of queue root.a at vcore=8m and node n0 free of its 4 allocations "
                "and no other ask waiting it starts at once on n0"
            ),
            (
                "with the maximum of queue root.a at vcore=8m and one more node of vcore=4m "
                "and no other ask waiting it starts at once on the new node"
            ),
        ],
    ),
    "more obstacles than changes": (((10,), ("root.b", 1)), ("root.p.q.r.s.t", [2]), []),
    "a node too small": (
        ((4,), ("root.b", 1)),
        ("root.b", [5]),
        ["with one more node of vcore=5m it starts at once on the new node"],
    ),
}


@pytest.mark.parametrize(("world", "wanted", "told"), CASES.values(), ids=CASES)
def test_an_ask_starts_with_each_reported_change(
    world: tuple[tuple[int, ...], tuple[str, int]], wanted: tuple[str, list[int]], told: list[str]
) -> None:
    """The last ask starts with each reported change, as a trial on a copy confirms."""
    driver = begun(*world[0], running=world[1])
    queue, sizes = wanted
    driver.do(apps(app("new", queue)), asks(*(ask("new", f"w{at}", vcore=s) for at, s in enumerate(sizes))))
    assert outcomes(driver, "new", f"w{len(sizes) - 1}") == told


def test_the_reported_maximum_counts_applications_that_start_earlier() -> None:
    """The reported maximum allows as many applications as run when the ask starts."""
    driver = begun(10, running=("root.one", 1))
    for name in ("first", "new"):
        driver.do(apps(app(name, "root.one")), asks(ask(name, "w", vcore=1)))
    told = (
        "with 3 running applications allowed for queue root.one it starts at once on n0, after one other ask"
    )
    assert outcomes(driver, "new", "w") == [told]


@pytest.mark.parametrize(
    "change",
    [nodes(node("n1", action=NodeAction.DRAIN_NODE)), asks(foreign("other", "n1", vcore=2))],
    ids=["drained", "taken by another scheduler"],
)
def test_a_trial_frees_only_a_node_that_would_take_the_ask(change: Command) -> None:
    """Of nodes that would take the ask when empty, the node with the fewest allocations is freed."""
    driver = begun(4, 3, running=("root.b", 7))
    driver.do(change, apps(app("new", "root.b")), asks(ask("new", "w", vcore=2)))
    assert "with node n0 free of its 4 allocations it starts at once on n0" in outcomes(driver, "new", "w")


LACKING = {
    "a maximum": ((10,), ("root.a", 3), 2, "the maximum of queue root.a at vcore=5m (now vcore=4m)"),
    "a node of any size": ((3, 4), ("root.b", 7), 2, "one more node of vcore=4m"),
    "a maximum and a larger node": (
        (10,),
        ("root.a", 1),
        12,
        (
            "the maximum of queue root.a at vcore=13m (now vcore=4m) "
            "and one more node of vcore=12m (node n0 has vcore=10m)"
        ),
    ),
    "nothing of this kind": ((10,), ("root.b", 1), 1, ""),
}


@pytest.mark.parametrize(("sizes", "running", "wanted", "told"), LACKING.values(), ids=LACKING)
def test_shortages_are_reported_without_a_trial(
    sizes: tuple[int, ...], running: tuple[str, int], wanted: int, told: str
) -> None:
    """A shortage has the needed and the present amount; for an ask that does not wait NotFound is raised."""
    driver = begun(*sizes, running=running)
    driver.do(apps(app("new", running[0])))
    driver.scheduler.handle(asks(ask("new", "w", vcore=wanted)), driver.now)
    name = WaitingAskName(RmId("rm1"), "default", AppId("new"), AllocationKey("w"))
    [first, *_, lacking] = driver.scheduler.start_lacks(name)
    assert first is None
    assert isinstance(lacking, StartTrial)
    assert (lacking.advice(), lacking.starts) == (told, False)
    for app_id, key in (("new", "x"), ("old", "k0")):
        with pytest.raises(NotFound, match=f"application {app_id} has no pending ask {key}"):
            next(driver.scheduler.start_lacks(name._replace(app_id=AppId(app_id), key=AllocationKey(key))))


def test_shortages_have_the_state_at_the_end_of_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes removed during a pause are left out of shortages, and a removed ask gives None."""
    monkeypatch.setattr(starting, "STEP", 1)
    driver = begun(3, 4, running=("root.b", 7))
    driver.do(apps(app("new", "root.b")), asks(ask("new", "w", vcore=2)))
    name = WaitingAskName(RmId("rm1"), "default", AppId("new"), AllocationKey("w"))
    steps = driver.scheduler.start_lacks(name)
    assert [next(steps) for _ in range(3)] == [None] * 3
    driver.do(nodes(node("n1", action=NodeAction.DECOMISSION)))
    *_, lacking = steps
    assert lacking is not None
    assert lacking.advice() == "one more node of vcore=3m"
    steps = driver.scheduler.start_lacks(name)
    assert [next(steps), next(steps)] == [None, None]
    driver.do(releases(release("new", "w")))
    with pytest.raises(NotFound, match="application new has no pending ask w"):
        list(steps)
