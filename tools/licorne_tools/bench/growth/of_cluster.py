"""Worlds with a growing cluster: nodes, asks that wait for nodes, RMs, predicate checks and gangs."""

from collections.abc import Iterable
from dataclasses import replace

from licorne_core.extensions.autoscaler.messages import ContainerStatesChanged
from licorne_core.messages.commands import (
    AnswerPredicates,
    Command,
    NotePredicatesSent,
    PredicateAnswer,
    PredicatePolicy,
    ReleaseRequest,
    TerminationType,
    UpdateAllocations,
)
from licorne_core.messages.effects import AllocationsReleased, Effect, PredicatesAsked
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import RmId
from licorne_core.values.resources import multiply
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.world import (
    CAPACITY,
    CLASSES,
    Cost,
    World,
    application,
    ask,
    asks_of,
    leaf,
    numbered,
    running,
)
from licorne_tools.bench.workload import MI, config

ROOM = 100_000
"""Milli-cores of a node that is nearly full."""

HIGH = 10
"""The priority of asks that are ahead of all others."""

AHEAD = 10
"""Number of applications of the asks with `HIGH` priority."""

RELEASES = 100
OLD_ENOUGH = 5.0
"""Seconds, more than the age at which an ask that fits nowhere may reserve a node (spec § 8.5)."""


def nodes(size: int, work: int) -> World:
    """A world with `size` nodes, on which all asks fit."""
    world = World(config([leaf()]))
    world.add_nodes(size)
    world.waiting = asks_of(running(world, [application("app")]), work)
    return world


def waiting_sizes(size: int, work: int) -> World:
    """A full cluster, and asks of many sizes, each of which fits only after a release.

    `release_each` frees room step by step.
    """
    count = min(RELEASES, work)
    world = World(config([leaf()]))
    # Half an ask's resources remain free, so that nodes block the asks, not the maximum of root.
    world.add_nodes(count, {"vcore": ROOM * 3 // 2, "memory": ROOM * MI})
    world.add_applications([application("app")])
    world.take(asks_of(["app"], count, [AskClass.of({"vcore": ROOM, "memory": MI})]))
    world.settle()
    sizes = [AskClass.of({"vcore": ROOM - number, "memory": MI}) for number in range(size)]
    world.take(asks_of(["app"], max(size, count), sizes, key="waiting"))
    world.wanted = count
    return world


def release_each(world: World) -> None:
    """Release the allocations of the full cluster one by one, and let the core decide after each."""
    for full in asks_of(["app"], world.wanted):
        one = ReleaseRequest(app_id=full.app_id, key=full.key)
        world.handle(UpdateAllocations(rm_id=world.rm_id, releases=[one]))
        world.settle()


def reports(size: int, work: int) -> Cost:
    """Measure asks of one size that fit nowhere, until each has been reported to the RM.

    Reports are counted as allocations.
    """
    world = World(config([leaf()]))
    world.add_nodes()
    (app,) = running(world, [application("app")])
    world.begin()
    told = 0

    def hear(effect: Effect) -> Iterable[Command]:
        nonlocal told
        if isinstance(effect, ContainerStatesChanged):
            told += len(effect.states)
        return ()

    world.hear = hear
    world.take(asks_of([app], size, [AskClass.of({"vcore": 2 * CAPACITY["vcore"]})]))
    world.wait(OLD_ENOUGH)
    if told != size:
        raise BenchError(f"{told} of {size} asks were reported")
    return replace(world.cost(), allocations=told)


def unplaceable(size: int, work: int) -> World:
    """Asks that fit nowhere, each of a different size, ahead of all others.

    Half of them are in the same application as the asks that fit, and half in earlier applications.
    """
    world = World(config([leaf()]))
    world.add_nodes()
    *ahead, app = running(world, [application(name) for name in numbered("app", AHEAD + 1)])
    world.take(_too_large(ahead, app, size))
    world.waiting = asks_of([app], work)
    return world


def untried(size: int, work: int) -> World:
    """The world of `unplaceable`, with all asks sent together."""
    world = World(config([leaf()]))
    world.add_nodes()
    *ahead, app = running(world, [application(name) for name in numbered("app", AHEAD + 1)])
    fit = asks_of([app], work)
    world.wanted = len(fit)
    world.waiting = [*_too_large(ahead, app, size), *fit]
    return world


def _too_large(ahead: list[str], app: str, count: int) -> list[Ask]:
    vcore = 2 * CAPACITY["vcore"]
    return [
        ask(
            app if number % 2 else ahead[number // 2 % len(ahead)],
            f"large-{number:06}",
            AskClass.of({"vcore": vcore + number}),
            priority=HIGH,
        )
        for number in range(count)
    ]


def reservations(size: int, work: int) -> World:
    """Asks with reserved nodes, while others are placed on the other nodes."""
    world = World(config([leaf()]))
    # A large ask does not fit on a half full node, but many small asks do.
    world.add_nodes(max(size, work) * 6 // 5, {"vcore": ROOM, "memory": ROOM * MI})
    *ahead, app = running(world, [application(name) for name in numbered("app", AHEAD + 1)])
    half = AskClass.of({"vcore": ROOM * 3 // 5, "memory": MI})
    world.take(asks_of([app], max(size, work) * 6 // 5, [half], key="half"))
    world.settle()
    world.take(
        ask(ahead[number % AHEAD], f"large-{number:06}", half, priority=HIGH) for number in range(size)
    )
    world.wait(OLD_ENOUGH)
    world.waiting = asks_of([app], work)
    return world


MEMBERS = 10
"""Number of members of each gang while the number of gangs grows; number of gangs while their size grows."""

FEW_NODES = 10


def predicate_classes(size: int, work: int) -> World:
    """Asks of many predicate classes; the RM accepts every node immediately."""
    world = World(config([leaf()]), predicates=PredicatePolicy())
    world.hear = accepting
    world.add_nodes()
    apps = running(world, [application("app")])
    classes = [AskClass(CLASSES[number % len(CLASSES)].shape, f"class-{number:06}") for number in range(size)]
    world.waiting = asks_of(apps, max(size, work), classes)
    return world


def accepting(effect: Effect) -> Iterable[Command]:
    """The reaction of an RM that accepts every node."""
    if isinstance(effect, PredicatesAsked):
        yield NotePredicatesSent(rm_id=effect.rm_id, check=effect.checks[-1].check)
        answers = [PredicateAnswer(check.check) for check in effect.checks]
        yield AnswerPredicates(rm_id=effect.rm_id, answers=answers)


def gangs(size: int, _: int) -> World:
    """`size` gangs of a few members each."""
    return _with_gangs(size, MEMBERS)


def members(size: int, _: int) -> World:
    """A few gangs of `size` members each."""
    return _with_gangs(MEMBERS, size)


def _with_gangs(count: int, size: int) -> World:
    """`count` gangs of `size` members each, for `come_together`."""
    world = World(config([leaf()]))
    world.hear = confirming
    world.add_nodes()
    [ask_class, _] = CLASSES
    apps = numbered("gang", count)
    room = multiply(ask_class.resources, size)
    world.add_applications(application(name, placeholder_ask=room) for name in apps)
    world.waiting = [
        ask(app, f"{kind}-{number:06}", ask_class, task_group="members", placeholder=placeholder)
        for kind, placeholder in (("placeholder", True), ("real", False))
        for app in apps
        for number in range(size)
    ]
    return world


def come_together(world: World) -> None:
    """Place the placeholders of all gangs, then replace them."""
    half = len(world.waiting) // 2
    for asks in (world.waiting[:half], world.waiting[half:]):
        world.take(asks)
        world.settle()


def confirming(effect: Effect) -> Iterable[Command]:
    """The reaction of an RM that confirms the release of every placeholder."""
    if isinstance(effect, AllocationsReleased):
        stopped = [
            ReleaseRequest(app_id=one.app_id, key=one.key, termination=one.termination)
            for one in effect.releases
            if one.termination is TerminationType.PLACEHOLDER_REPLACED
        ]
        if stopped:
            yield UpdateAllocations(rm_id=effect.rm_id, releases=stopped)


def idle_rms(size: int, work: int) -> World:
    """RMs with nodes but without asks, in addition to a busy RM."""
    text = config([leaf()])
    world = World(text)
    for name in numbered("idle", size):
        world.register(RmId(name), text)
        world.add_nodes(FEW_NODES, rm_id=RmId(name))
    world.add_nodes()
    world.waiting = asks_of(running(world, [application("app")]), work)
    return world
