"""Wake-ups by changes: a change serves the first item that it helps, and no other."""

from collections.abc import Callable

import pytest

from licorne_core.messages.commands import (
    Command,
    NodeAction,
    NodeRefusal,
    PredicatePolicy,
    TerminationType,
    Tick,
)
from licorne_core.messages.effects import AskedCheck
from licorne_core.values.ids import NodeId, PartitionName
from support.core.builders import (
    answering,
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
    remove_apps,
)
from support.core.driver import START, Driver, asked, keys, placed

DEFAULT = PartitionName("[rm1]default")
AWARE = config("[{name: a, properties: {application.sort.policy: stateaware}}]")
SIZES = range(300, 0, -1)


def started(
    text: str, *commands: Command, policy: PredicatePolicy | None = None, reservations: bool = True
) -> Driver:
    """A core with one registered RM of this configuration."""
    core = Driver(reservations=reservations)
    core.do(register(text, predicates=policy))
    assert DEFAULT in core.scheduler.partitions
    core.do(*commands)
    return core


def refusal(check: AskedCheck, *refused: str) -> Command:
    """Refuse these nodes in place of the RM."""
    return answering(check, [NodeRefusal(node_id=NodeId(name), reason="no") for name in refused])


def tried(core: Driver) -> int:
    """The number of groups, reserved asks and applications tried so far."""
    return core.partition.counters.asks_tried


# Many waiting items


def waiting_in_one_application() -> Driver:
    """An application with a waiting ask of each size, the largest first."""
    core = started(config("[{name: a}, {name: f}]"), apps(app("fill", "root.f"), app("app", "root.a")))
    core.do(nodes(node("n", vcore=1000)), asks(ask("fill", "f", vcore=990)))
    core.do(asks(ask("fill", "g", vcore=10)))
    core.do(asks(*(ask("app", f"k{size}", vcore=size) for size in SIZES)))
    return core


def waiting_in_many_applications() -> Driver:
    """Each size waits in an application of its own; the first application has the largest."""
    core = started(config("[{name: a}, {name: f}]"), apps(app("fill", "root.f")))
    core.do(nodes(node("n", vcore=1000)), asks(ask("fill", "f", vcore=990)))
    core.do(asks(ask("fill", "g", vcore=10)))
    core.do(apps(*(app(f"app-{size}", "root.a") for size in SIZES)))
    # The age of an application is that of its oldest ask.
    core.do(
        asks(*(ask(f"app-{n}", f"k{n}", vcore=n, created=START - n) for n in SIZES)),
    )
    return core


def waiting_in_many_queues() -> Driver:
    """Each size waits in a queue of its own; of queues with equal shares the larger request is first."""
    queues = ", ".join(f"{{name: q{size}}}" for size in SIZES)
    core = started(config(f"[{queues}, {{name: f}}]"), apps(app("fill", "root.f")))
    core.do(nodes(node("n", vcore=1000)), asks(ask("fill", "f", vcore=990)))
    core.do(asks(ask("fill", "g", vcore=10)))
    core.do(apps(*(app(f"app-{size}", f"root.q{size}") for size in SIZES)))
    core.do(asks(*(ask(f"app-{size}", f"k{size}", vcore=size) for size in SIZES)))
    return core


@pytest.mark.parametrize(
    "waiting", [waiting_in_one_application, waiting_in_many_applications, waiting_in_many_queues]
)
def test_a_release_serves_the_first_of_three_hundred_sizes_that_fits(
    waiting: Callable[[], Driver],
) -> None:
    """Larger sizes before the first fitting one are skipped; few of all sizes are tried."""
    core = waiting()
    before = tried(core)
    assert keys(core.do(releases(release("fill", "g")))) == ["k10"]
    # The served size, the sizes that were checked for its room, and their queues.
    assert tried(core) - before <= 20
    assert keys(core.do(releases(release("fill", "f")))) == [
        *(f"k{size}" for size in (300, 299, 298)),
        "k93",
    ]


# Reserved asks


def test_room_in_a_queue_wakes_its_reserved_ask() -> None:
    """A reserved ask is placed on its node as soon as its queue has room."""
    core = started(
        config("[{name: a, resources: {max: {vcore: 12m}}}, {name: f}]"),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("fill", "root.f"), app("own", "root.a")),
        asks(ask("fill", "f1", vcore=6), ask("fill", "f2", vcore=6)),
        asks(ask("own", "big", vcore=8)),
    )
    core.wait(3)
    core.do(asks(ask("own", "other", vcore=5, on_node="n2")))
    assert placed(core.do(releases(release("fill", "f1")))) == []
    assert placed(core.do(releases(release("own", "other")))) == [("own", "big", "n1")]


def test_room_of_a_user_wakes_its_reserved_ask() -> None:
    """Usage that another application of the user frees in another queue wakes a reserved ask."""
    limit = "limits: [{limit: of ann, users: [ann], maxresources: {vcore: 12m}}]"
    core = started(
        config("[{name: a}, {name: b}, {name: f}]", rest=limit),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("fill", "root.f", user="bob"), app("own", "root.a"), app("also", "root.b")),
        asks(ask("fill", "f1", vcore=6), ask("fill", "f2", vcore=6)),
        asks(ask("own", "big", vcore=8)),
    )
    core.wait(3)
    core.do(asks(ask("also", "other", vcore=5, on_node="n2")))
    assert placed(core.do(releases(release("fill", "f1")))) == []
    assert placed(core.do(releases(release("also", "other")))) == [("own", "big", "n1")]


def test_a_reserved_ask_precedes_others_that_wait_for_the_same_room() -> None:
    """When the maximum of a parent has room, a reserved ask precedes asks that are first in order (§ 8.6)."""
    queues = "[{name: a}, {name: p, resources: {max: {vcore: 14m}}, queues: [{name: x}, {name: y}]}]"
    core = started(
        config(queues),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("fill", "root.a"), app("first", "root.p.x"), app("own", "root.p.y")),
        asks(ask("fill", "f1", vcore=4), ask("fill", "f2", vcore=4)),
        asks(ask("own", "big", vcore=8)),
    )
    core.wait(3)
    core.do(asks(ask("own", "other", vcore=7, on_node="n2")))
    core.do(asks(ask("first", "small", vcore=9)))
    core.do(releases(release("fill", "f1")), releases(release("fill", "f2")))
    assert [k for _, k, _ in placed(core.do(releases(release("own", "other"))))][:1] == ["big"]


def test_a_reserved_ask_takes_a_node_before_others_that_wait_for_it() -> None:
    """When another node has room, a reserved ask precedes asks that are first in order (spec § 8.6)."""
    core = started(
        config("[{name: a}, {name: b}, {name: f}]"),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("fill", "root.f"), app("first", "root.a"), app("own", "root.b")),
        asks(ask("fill", "f1", vcore=4), ask("fill", "f2", vcore=4)),
        asks(ask("own", "big", vcore=7)),
    )
    core.wait(3)
    core.do(asks(ask("first", "other", vcore=8)))
    assert placed(core.do(releases(release("fill", "f2")))) == [("own", "big", "n2")]


# Placeholders


def test_asks_of_a_refused_replacements_size_are_placed() -> None:
    """After a refused replacement is removed, other asks of its size are placed."""
    core = started(
        config("[{name: a}, {name: b, resources: {max: {vcore: 1m}}}]"),
        nodes(node("n1", vcore=1), node("n2", vcore=2)),
        apps(app("job", "root.a", gang={"vcore": 1}), app("other", "root.a"), app("held", "root.b")),
        asks(ask("job", "p", placeholder=True, group="g", vcore=1, on_node="n1")),
        asks(ask("other", "full", vcore=1), ask("held", "h1", vcore=1), ask("held", "h2", vcore=1)),
        policy=PredicatePolicy(deadline=10.0),
    )
    (check,) = asked(core.do(asks(ask("job", "real", group="g", vcore=1, predicate="p"))))
    assert placed(core.do(refusal(check, "n1"))) == []
    core.do(releases(release("job", "real")))
    core.do(releases(release("other", "full")))
    assert placed(core.do(asks(ask("other", "k", vcore=1)))) == [("other", "k", "n2")]


def test_a_refused_replacement_is_tried_again_when_the_node_changes() -> None:
    """A refused replacement is tried again when its node changes, even without more room."""
    core = started(
        config("[{name: a}]"),
        nodes(node("n1", vcore=1)),
        apps(app("job", "root.a", gang={"vcore": 1})),
        asks(ask("job", "p", placeholder=True, group="g", vcore=1, on_node="n1")),
        policy=PredicatePolicy(deadline=10.0),
    )
    (check,) = asked(core.do(asks(ask("job", "real", group="g", vcore=1, predicate="p"))))
    core.do(refusal(check, "n1"))
    (again,) = asked(core.do(nodes(node("n1", NodeAction.UPDATE, vcore=1, memory=5))))
    assert again.nodes == ["n1"]


# Asks that the RM could not run


def test_an_ask_that_the_rm_could_not_run_waits_behind_others_of_its_class() -> None:
    """An ask that failed at the RM lets others of its class use the room, and is placed after a second."""
    core = started(
        config("[{name: a}]"),
        nodes(node("n", vcore=1)),
        apps(app("app", "root.a")),
        asks(*(ask("app", f"k{number}", vcore=1, created=START) for number in (1, 2, 3))),
    )
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    assert keys(core.do(releases(release("app", "k1", why=why)))) == ["k2"]
    assert keys(core.do(releases(release("app", "k2")))) == ["k3"]
    assert keys(core.do(releases(release("app", "k3")))) == []
    assert keys(core.wait(1.0)) == ["k1"]


# Turns that end early


def test_a_woken_item_is_served_in_the_next_turn_if_no_tries_are_left() -> None:
    """A turn that has used its tries before a woken item leaves the item to the next turn."""
    core = started(
        config("[{name: a}, {name: b, resources: {max: {vcore: 1m}}}, {name: f}]"),
        nodes(node("n1", vcore=500), node("n2", vcore=500)),
        apps(app("fill", "root.f"), app("runs", "root.b"), app("waits", "root.b")),
        apps(app("many", "root.a")),
        asks(ask("fill", "f1", vcore=300), ask("fill", "f2", vcore=300)),
        asks(ask("runs", "r", vcore=1), ask("waits", "w", vcore=1)),
    )
    core.send(releases(release("runs", "r")))
    core.send(asks(*(ask("many", f"k{size}", vcore=size) for size in range(201, 301))))
    assert keys(core.send(Tick(decisions=1))) == []
    assert keys(core.run(decisions=1)) == ["w"]


# Applications that may start


@pytest.mark.parametrize("bound", ["queue", "user"])
def test_a_roll_back_lets_the_next_application_start(bound: str) -> None:
    """An application with an assumed ask counts as running; if the ask is rolled back, another may start."""
    one = "maxapplications: 1"
    limit = f"limits: [{{limit: one, users: ['*'], {one}}}]" if bound == "user" else ""
    leaf = f"{{name: a, {one}}}" if bound == "queue" else "{name: a}"
    core = started(
        config(f"[{leaf}]", rest=limit),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a"), app("two", "root.a")),
        policy=PredicatePolicy(deadline=10.0),
    )
    (check,) = asked(core.do(asks(ask("one", "k", vcore=4, predicate="p"))))
    assert placed(core.do(asks(ask("two", "t", vcore=4)))) == []
    assert placed(core.do(refusal(check, "n1"))) == [("two", "t", "n1")]


def test_the_end_of_an_application_starts_the_first_waiting_application() -> None:
    """The end of an application lets one other start: the first in order over all queues."""
    leaves = ", ".join(f"{{name: {name}, maxapplications: 1}}" for name in "xy")
    core = started(
        config(f"[{{name: p, maxapplications: 1, queues: [{leaves}]}}]"),
        nodes(node("n1", vcore=100)),
        apps(app("runs", "root.p.y")),
        asks(ask("runs", "r", vcore=1)),
        apps(app("x1", "root.p.x"), app("y1", "root.p.y"), app("x2", "root.p.x")),
    )
    core.do(asks(ask("x2", "x2", vcore=1), ask("y1", "y1", vcore=1), ask("x1", "x1", vcore=1)))
    assert keys(core.do(remove_apps("runs"))) == ["x1"]
    assert keys(core.do(remove_apps("x1"))) == ["x2"]
    assert keys(core.do(remove_apps("x2"))) == ["y1"]


# State-aware leaves


@pytest.mark.parametrize("how", ["its ask is released", "all is released", "it is removed"])
def test_the_next_accepted_application_is_tried_after_the_end_of_the_older_one(how: str) -> None:
    """If an older application that fits nowhere is removed, or has no more asks, the younger is tried."""
    core = started(AWARE, nodes(node("n", vcore=10)))
    for app_id in ("old", "young"):
        core.do(apps(app(app_id, "root.a")))
        core.wait(1)
    core.do(asks(ask("old", "huge", vcore=11)))
    assert placed(core.do(asks(ask("young", "y", vcore=1)))) == []
    commands: dict[str, Command] = {
        "its ask is released": releases(release("old", "huge")),
        "all is released": releases(release("old")),
        "it is removed": remove_apps("old"),
    }
    assert placed(core.do(commands[how])) == [("young", "y", "n")]


@pytest.mark.parametrize("how", ["second allocation", "release", "removal", "five minutes"])
def test_the_next_accepted_application_is_tried_after_the_start_of_the_older_one(how: str) -> None:
    """The start of an application ends with its second allocation, its removal, or after five minutes."""
    core = started(AWARE, nodes(node("n", vcore=10)))
    for app_id in ("old", "young"):
        core.do(apps(app(app_id, "root.a")))
        core.wait(1)
    core.do(asks(ask("old", "o1", vcore=1)))
    assert placed(core.do(asks(ask("young", "y", vcore=1)))) == []
    match how:
        case "second allocation":
            effects = core.do(asks(ask("old", "o2", vcore=1)))
        case "release":
            effects = core.do(releases(release("old", "o1")))
        case "removal":
            effects = core.do(remove_apps("old"))
        case _:
            assert placed(core.wait(300 - 0.5)) == []
            effects = core.wait(1)
    assert ("young", "y", "n") in placed(effects)


def test_an_older_application_is_the_next_in_a_state_aware_leaf() -> None:
    """An ask with an old creation time makes its application the oldest (spec § 5.2)."""
    core = started(AWARE, nodes(node("n", vcore=10)))
    core.do(apps(app("starts", "root.a"), app("young", "root.a"), app("old", "root.a")))
    core.do(asks(ask("starts", "s1", vcore=1)))
    core.do(asks(ask("young", "y", vcore=1)))
    core.do(asks(ask("old", "o", vcore=1, created=START - 50)))
    assert keys(core.do(asks(ask("starts", "s2", vcore=1)))) == ["s2", "o"]


# Back-off


def test_all_asks_of_an_application_are_tried_after_its_back_off() -> None:
    """After a back-off all items of the application are tried again, whatever blocked them before."""
    properties = "{application.unschedasks.backoff: '2', application.unschedasks.backoff.delay: 5s}"
    core = started(
        config(f"[{{name: a, properties: {properties}}}, {{name: f}}]"),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("fill", "root.f"), app("own", "root.a")),
        asks(ask("fill", "f1", vcore=5), ask("fill", "f2", vcore=5)),
        reservations=False,
    )
    core.do(asks(*(ask("own", f"k{size}", vcore=size) for size in (6, 7, 8))))
    assert "backs off" in core.explain("own", "k6").summary
    assert placed(core.do(releases(release("fill", "f1")))) == []
    assert keys(core.wait(6)) == ["k6"]


# Settings


def test_items_that_a_reload_allows_are_tried_at_once() -> None:
    """Asks that wait for a maximum, a number of applications or a back-off are tried after a reload."""
    tight = config("[{name: a, maxapplications: 1}, {name: b, resources: {max: {vcore: 1m}}}]")
    core = started(
        tight,
        nodes(node("n", vcore=10)),
        apps(app("a1", "root.a"), app("a2", "root.a"), app("b1", "root.b")),
        asks(ask("a1", "a1", vcore=1)),
        asks(ask("a2", "a2", vcore=1), ask("b1", "b1", vcore=2)),
    )
    assert set(keys(core.do(reload(config("[{name: a}, {name: b}]"))))) == {"a2", "b1"}
