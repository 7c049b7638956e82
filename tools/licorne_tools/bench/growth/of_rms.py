"""Worlds in which an RM is asked about its asks, has gangs, or is one of many."""

from collections.abc import Iterable

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
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import RmId
from licorne_core.values.resources import multiply
from licorne_tools.bench.growth.world import (
    CLASSES,
    World,
    application,
    ask,
    asks_of,
    config,
    leaf,
    numbered,
    running,
)

MEMBERS = 10
"""Members of each gang, where their number does not grow, and gangs where that of members does."""

FEW_NODES = 10


def predicate_classes(size: int, work: int) -> World:
    """Asks of so many predicate classes; the RM accepts every node, at once."""
    world = World(config([leaf()]), predicates=PredicatePolicy())
    world.hear = accepting
    world.add_nodes()
    apps = running(world, [application("app")])
    classes = [AskClass(CLASSES[number % len(CLASSES)].shape, f"class-{number:06}") for number in range(size)]
    world.waiting = asks_of(apps, max(size, work), classes)
    return world


def accepting(effect: Effect) -> Iterable[Command]:
    """The RM accepts all nodes that it is asked about."""
    if isinstance(effect, PredicatesAsked):
        yield NotePredicatesSent(rm_id=effect.rm_id, check=effect.checks[-1].check)
        answers = [PredicateAnswer(check.check) for check in effect.checks]
        yield AnswerPredicates(rm_id=effect.rm_id, answers=answers)


def gangs(size: int, _: int) -> World:
    """So many gangs, each of a few members."""
    return _with_gangs(size, MEMBERS)


def members(size: int, _: int) -> World:
    """A few gangs, each of so many members."""
    return _with_gangs(MEMBERS, size)


def _with_gangs(count: int, size: int) -> World:
    """Gangs whose placeholders are about to be sent; `come_together` sends the rest."""
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
    """Place the placeholders of all gangs, and then replace them."""
    half = len(world.waiting) // 2
    for asks in (world.waiting[:half], world.waiting[half:]):
        world.take(asks)
        world.settle()


def confirming(effect: Effect) -> Iterable[Command]:
    """The RM stops every placeholder that it is told to."""
    if isinstance(effect, AllocationsReleased):
        stopped = [
            ReleaseRequest(app_id=one.app_id, key=one.key, termination=one.termination)
            for one in effect.releases
            if one.termination is TerminationType.PLACEHOLDER_REPLACED
        ]
        if stopped:
            yield UpdateAllocations(rm_id=effect.rm_id, releases=stopped)


def idle_rms(size: int, work: int) -> World:
    """So many RMs beside the one that works; they have nodes and nothing to do."""
    text = config([leaf()])
    world = World(text)
    for name in numbered("idle", size):
        world.register(RmId(name), text)
        world.add_nodes(FEW_NODES, rm_id=RmId(name))
    world.add_nodes()
    world.waiting = asks_of(running(world, [application("app")]), work)
    return world
