"""The work of one tick does not grow with the number of due items, so that no tick is long."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import pytest

from extensions.drains.building import drain
from licorne_core import scheduler
from licorne_core.extensions.autoscaler import scan
from licorne_core.extensions.hours import extension as hours
from licorne_core.handlers import turn
from licorne_core.messages.commands import (
    Command,
    NodeAction,
    NotePredicatesSent,
    PredicatePolicy,
    RegisterRm,
    TerminationType,
    Tick,
)
from licorne_core.messages.effects import Effect, PredicatesAsked, Unfinished
from licorne_core.model.apps import groups
from licorne_core.scheduler import Scheduler
from licorne_core.standard.predicates import checks, owed
from licorne_core.standard.reservations import review
from licorne_core.values import slices
from licorne_core.values.slices import Tuning
from licorne_core.values.tags import RUNTIME
from licorne_core.values.timers import Due
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
    remove_apps,
)
from support.core.driver import START
from support.core.steps import lines_of_core

pytestmark = pytest.mark.pure

FEW, MANY = 150, 300
"""Numbers of due objects in a scene: more than one tick ends, and more than one tick examines."""

SMALL = Tuning(fill_work=400, slice_size=50, timeout_size=50)
"""Slices of a tenth of their size in a server, for small worlds."""

GROWTH = 1.25
DAY = 86_400.0
MOST_TICKS = 15
"""Some deadlines recur; each recurring deadline is due three times in this number of ticks."""

DYNAMIC = "placementrules: [{name: provided, create: true}]"


def _asks(n: int) -> Iterator[Command]:
    """Asks of one size that fit nowhere and are reported to the RM."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=10))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{number}", vcore=20) for number in range(n)))


def _starting(n: int) -> Iterator[Command]:
    """Applications of state-aware leaves that are starting."""
    leaf = "properties: {application.sort.policy: stateaware}"
    leaves = ", ".join(f"{{name: q{number}, {leaf}}}" for number in range(n))
    yield register(config(f"[{leaves}]"))
    yield nodes(node("n1", vcore=10 * n))
    yield apps(*(app(f"app-{number}", f"root.q{number}") for number in range(n)))
    yield asks(*(ask(f"app-{number}", "k", vcore=1) for number in range(n)))


def _completing(n: int) -> Iterator[Command]:
    """Applications that complete at the same time, without asks and allocations."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=10 * n))
    yield apps(*(app(f"app-{number}", "root.a") for number in range(n)))
    yield asks(*(ask(f"app-{number}", "k", vcore=1) for number in range(n)))
    yield Tick(decisions=n)
    yield releases(*(release(f"app-{number}", "k") for number in range(n)))


def _gang(n: int) -> Iterator[Command]:
    """A gang whose placeholders have timed out."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=10 * n))
    yield apps(app("one", "root.a", gang={"vcore": n}, timeout=3))
    yield asks(*(ask("one", f"p{number}", vcore=1, group="g", placeholder=True) for number in range(n)))


def _rejected(n: int) -> Iterator[Command]:
    """Applications that were refused."""
    yield register(config("[{name: a}]"))
    yield apps(*(app(f"app-{number}", "root.a.b") for number in range(n)))


def _gone(n: int) -> Iterator[Command]:
    """Ended applications, each in a dynamic queue that is then removed."""
    yield register(config("[{name: p, parent: true, submitacl: '*'}]", rest=DYNAMIC))
    yield apps(*(app(f"app-{number}", f"root.p.q{number}") for number in range(n)))
    yield remove_apps(*(f"app-{number}" for number in range(n)))


def _gone_among_others(n: int) -> Iterator[Command]:
    """One dynamic queue to remove among very many that remain."""
    others = ", ".join(f"{{name: q{number}}}" for number in range(7 * n // 2))
    p = "{name: p, parent: true, submitacl: '*'}"
    yield register(config(f"[{p}, {others}]", rest=DYNAMIC))
    yield apps(app("one", "root.p.q"))
    yield remove_apps("one")


def _unanswered(n: int) -> Iterator[Command]:
    """Predicate checks that the RM does not answer."""
    yield register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=0.5))
    yield nodes(*(node(f"n{number}", vcore=1) for number in range(n)))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{n}", vcore=1, predicate=f"p{n}") for n in range(n)))


def _old_together(n: int) -> Iterator[Command]:
    """Asks as large as a node, on which little runs; all may reserve a node from the same time on."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=20), node("n2", vcore=20))
    yield apps(app("one", "root.a"))
    yield asks(ask("one", "f1", vcore=1, on_node="n1"), ask("one", "f2", vcore=1, on_node="n2"))
    yield asks(*(ask("one", f"k{number}", vcore=20) for number in range(n)))


def _reserved(n: int) -> Iterator[Command]:
    """Full nodes, each reserved for an ask that requires it."""
    yield register(config("[{name: a}, {name: b}]"))
    yield nodes(node("free", vcore=1), *(node(f"n{number}", vcore=1) for number in range(n)))
    yield apps(app("one", "root.a"), app("two", "root.b"))
    yield asks(*(ask("one", f"f{number}", vcore=1, on_node=f"n{number}") for number in range(n)))
    yield asks(*(ask("two", f"k{n}", vcore=1, required_node=f"n{n}") for n in range(n)))


def _overdue(n: int) -> Iterator[Command]:
    """Full nodes whose allocations run longer than declared, and an ask with a shadow start."""
    yield register(config("[{name: a}]", properties="{backfill: easy}"))
    yield nodes(*(node(f"n{number}", vcore=2) for number in range(2 * n)))
    yield apps(app("one", "root.a", tags={RUNTIME: "60"}))
    yield asks(*(ask("one", f"f{number}", vcore=1, on_node=f"n{number}") for number in range(2 * n)))
    yield asks(ask("one", "large", vcore=2))


def _failed(n: int) -> Iterator[Command]:
    """Allocations that the RM reports as failed."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=n))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{number}", vcore=1, on_node="n1") for number in range(n)))
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    yield releases(*(release("one", f"k{number}", why=why) for number in range(n)))


def _completing_gang(n: int) -> Iterator[Command]:
    """A completing gang that has placeholders only."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=10 * n))
    yield apps(app("one", "root.a", gang={"vcore": n}, timeout=300))
    yield asks(*(ask("one", f"p{number}", vcore=1, group="g", placeholder=True) for number in range(n)))
    yield Tick(decisions=n)
    yield asks(ask("one", "k", vcore=1))
    yield Tick()
    yield releases(release("one", "k"))


def _crowded(n: int) -> Iterator[Command]:
    """A placeholder that times out in an application with many allocations and as many asks."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=2 * n), node("n2", vcore=1))
    yield apps(app("one", "root.a", gang={"vcore": 2}, timeout=3))
    yield asks(ask("one", "p", vcore=1, group="g", placeholder=True))
    yield Tick()
    yield asks(*(ask("one", f"r{number}", vcore=1, on_node="n1") for number in range(2 * n)))
    yield asks(*(ask("one", f"k{number}", vcore=4 * n) for number in range(2 * n)))


def _crowded_in_doubt(n: int) -> Iterator[Command]:
    """The scene `_crowded`, while the RM is asked about the node of one more placeholder."""
    register_first, *others = _crowded(n)
    assert isinstance(register_first, RegisterRm)
    yield replace(register_first, predicates=PredicatePolicy(deadline=60))
    yield from others
    yield asks(ask("one", "p2", vcore=1, group="g", placeholder=True, predicate="any"))


ENFORCED = "preemption: {quotapreemptionenabled: true}"


def _limited(name: str, rest: str = "", delay: str = "5s", most: int = 1) -> str:
    """The text of a queue whose maximum is enforced after this delay."""
    properties = f"properties: {{quota.preemption.delay: {delay}}}"
    return f"{{name: {name}, resources: {{max: {{memory: {most}}}}}, {properties}{rest}}}"


def _above_max(n: int) -> Iterator[Command]:
    """A leaf that is very far above its maximum."""
    yield register(config(f"[{_limited('a')}]", rest=ENFORCED))
    yield nodes(node("n1", memory=n))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{number}", memory=1, on_node="n1") for number in range(n)))


def _large_above_max(n: int) -> Iterator[Command]:
    """A leaf above its maximum, without an allocation that is small enough to be stopped."""
    yield register(config(f"[{_limited('a', most=8 * n - 1)}]", rest=ENFORCED))
    yield nodes(node("n1", memory=8 * n))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{number}", memory=2, on_node="n1") for number in range(4 * n)))


def _leaves_above_max(n: int) -> Iterator[Command]:
    """A queue above its maximum with very many leaves."""
    leaves = ", ".join(f"{{name: q{number}}}" for number in range(n))
    queue = _limited("p", f", queues: [{leaves}]")
    yield register(config(f"[{queue}]", rest=ENFORCED))
    yield nodes(node("n1", memory=n))
    yield apps(*(app(f"app-{number}", f"root.p.q{number}") for number in range(n)))
    yield asks(*(ask(f"app-{number}", "k", memory=1, on_node="n1") for number in range(n)))


def _applications_above_max(n: int) -> Iterator[Command]:
    """A leaf above its maximum with very many applications."""
    yield from _above_max(4)
    yield apps(*(app(f"app-{number}", "root.a") for number in range(4 * n)))


def _many_above_max(n: int, delay: str = "5s") -> Iterator[Command]:
    """Leaves that are above their maxima and become due at the same time."""
    leaves = ", ".join(_limited(f"q{number}", delay=delay) for number in range(n))
    yield register(config(f"[{leaves}]", rest=ENFORCED))
    yield nodes(node("n1", memory=2 * n))
    yield apps(*(app(f"app-{number}", f"root.q{number}") for number in range(n)))
    yield asks(*(ask(f"app-{number}", "k", memory=2, on_node="n1") for number in range(n)))


def _some_time_above_max(n: int) -> Iterator[Command]:
    """Leaves above their maxima, long before enforcement."""
    yield from _many_above_max(7 * n // 2, delay="480h")


def _drained(n: int) -> Iterator[Command]:
    """A drained node with very many allocations and one stop in more than a week."""
    yield register(config("[{name: a}]"))
    yield nodes(node("n1", vcore=2 * n))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{number}", vcore=1, on_node="n1") for number in range(2 * n)))
    yield drain("n1", 18 * DAY * n)


def _noticed(n: int) -> Iterator[Command]:
    """A leaf with notice that is far above its maximum."""
    notice = "properties: {quota.preemption.delay: 5s, preemption.notice: 60s}"
    yield register(config(f"[{{name: a, resources: {{max: {{memory: 1}}}}, {notice}}}]", rest=ENFORCED))
    yield nodes(node("n1", memory=n))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"k{number}", memory=1, on_node="n1") for number in range(n)))


def _lost(n: int) -> Iterator[Command]:
    """Room reserved for lost members of a gang that has one pending ask."""
    properties = "{topology.levels: rack, topology.swap-seconds: '60'}"
    yield register(config("[{name: a}]", properties=properties))
    yield nodes(*(node(f"n{number}", vcore=1, attributes={"rack": "r"}) for number in range(n)))
    yield apps(app("one", "root.a", gang={"vcore": n}, tags={"licorne/topology": "required=rack"}))
    yield asks(*(ask("one", f"k{n}", vcore=1, group="g", on_node=f"n{n}") for n in range(n)))
    yield asks(ask("one", "k", vcore=2))
    yield nodes(*(node(f"n{number}", NodeAction.DECOMISSION) for number in range(n)))


def _hours(n: int) -> Iterator[Command]:
    """Leaves with budgets of hours whose windows begin at the same time."""
    budget = "properties: {budget.vcore-hours: 1/hour}"
    leaves = ", ".join(f"{{name: q{number}, {budget}}}" for number in range(n))
    yield register(config(f"[{leaves}]"))
    yield nodes(node("n1", vcore=2000 * n))
    yield apps(*(app(f"app-{number}", f"root.q{number}") for number in range(n)))
    yield asks(*(ask(f"app-{number}", "k", vcore=2000, on_node="n1") for number in range(n)))


def _ageing(n: int) -> Iterator[Command]:
    """Applications with asks of equal age in a partition without nodes."""
    yield register(config("[{name: a, properties: {ageing: 1/1h max 1}}]"))
    yield apps(*(app(f"app-{number}", "root.a") for number in range(n)))
    yield asks(*(ask(f"app-{number}", "k", vcore=2) for number in range(n)))


def _fragmented(n: int) -> Iterator[Command]:
    """Half full nodes, and an ask as large as a node, for which the node order is rebuilt."""
    yield register(config("[{name: a}]"))
    yield nodes(*(node(f"n{number}", vcore=2) for number in range(4 * n)))
    yield apps(app("one", "root.a"))
    yield asks(*(ask("one", f"f{number}", vcore=1, on_node=f"n{number}") for number in range(4 * n)))
    yield asks(ask("one", "large", vcore=2))


Scene = Callable[[int], Iterator[Command]]

SCENES: dict[Due, tuple[Scene, ...]] = {
    Due.COMPLETE: (_completing, _completing_gang),
    Due.PLACEHOLDERS: (_gang, _crowded, _crowded_in_doubt),
    Due.GO_ON: (_gang,),
    Due.EXPIRE: (_completing,),
    Due.EXPIRE_REJECTED: (_rejected,),
    Due.CLEAN_QUEUES: (_gone, _gone_among_others),
    Due.NODE_ORDER: (_fragmented,),
    Due.ANSWER: (_unanswered,),
    Due.RETRY: (_unanswered,),
    Due.ESCALATE: (_old_together,),
    Due.REVIEW: (_reserved,),
    Due.UNRESERVE: (_reserved,),
    Due.TRY_AGAIN: (_failed,),
    Due.EXTENSION_WORK: (
        _above_max,
        _large_above_max,
        _leaves_above_max,
        _applications_above_max,
        _many_above_max,
        _some_time_above_max,
        _drained,
    ),
    Due.EXTENSION: (_starting, _hours, _ageing, _asks, _noticed, _overdue, _lost),
}


class Longest(NamedTuple):
    """The lines of code executed in the longest tick of a scene, and the kinds of deadlines in all ticks."""

    lines: int
    due: frozenset[Due]


class _Played:
    """A core whose RM answers nothing, with a count of the lines of code executed in ticks."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(tuning=SMALL)
        self.now = START
        self.most = 0

    def do(self, command: Command) -> None:
        """Process a command with all its slices."""
        effects = self.scheduler.handle(command, self.now)
        self._hear(effects)

    def tick(self) -> None:
        """Process a tick, and count its lines."""
        effects: list[Effect] = []
        work = partial(self._tick, effects)
        self.most = max(self.most, lines_of_core(work))
        self._hear(effects)

    def _tick(self, effects: list[Effect]) -> None:
        effects += self.scheduler.handle(Tick(), self.now)

    def _hear(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Unfinished):
                self.do(effect.rest)
            elif isinstance(effect, PredicatesAsked):
                self.do(NotePredicatesSent(rm_id=effect.rm_id, check=effect.checks[-1].check))


def longest_tick(scene: Scene, n: int) -> Longest:
    """The longest tick of a scene, over ten days of ticks."""
    played, due = _Played(), set[Due]()
    scheduler = played.scheduler
    for command in scene(n):
        played.do(command)
        while (deadline := scheduler.next_deadline()) is not None and deadline <= played.now:
            played.do(Tick())
    end = played.now + 10 * DAY
    for _ in range(MOST_TICKS):
        deadline = scheduler.next_deadline()
        if deadline is None or deadline > end:
            break
        played.now = max(played.now, deadline)
        for partition in scheduler.partitions.values():
            due |= {name.due for name in partition.timers.names()}
        played.tick()
    return Longest(played.most, frozenset(due))


@cache
def _grown(scene: Scene) -> tuple[Longest, Longest]:
    return longest_tick(scene, FEW), longest_tick(scene, MANY)


def test_every_kind_of_deadline_is_measured() -> None:
    """Every kind of deadline has a scene with many due items, or with much work for one item."""
    assert {*SCENES} == {*Due}


TENTHS = [
    (scheduler, "MOST_TIMERS", 8),
    (turn, "MOST_QUEUES", 50),
    (turn, "MOST_TRIES", 50),
    (slices, "RUN", 50),
    (scan, "PART", 100),
    (groups, "MATURED_AT_ONCE", 25),
    (hours, "MOST_BUDGETS", 50),
    (review, "MOST_REVIEWED", 13),
    (review, "MOST_GROUPS", 50),
    (checks, "BATCH", 100),
    (owed, "MAX_ASSUMED", 100),
]
"""Bounds on the work of a tick that are not options, each reduced to a tenth."""


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so small that a small scene exceeds a slice."""
    for module, name, size in TENTHS:
        monkeypatch.setattr(module, name, size)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize(
    ("due", "scene"), [(due, scene) for due, scenes in SCENES.items() for scene in scenes]
)
def test_more_due_items_make_more_ticks_not_longer_ones(due: Due, scene: Scene) -> None:
    """The longest tick is no longer with twice as many due items."""
    few, many = _grown(scene)
    assert due in few.due & many.due
    assert many.lines <= GROWTH * few.lines
