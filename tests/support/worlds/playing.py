"""Plays a script to a core whose RMs answer checks, confirm stops, and resize asks.

They act at once, late, wrongly or never. The actions of an RM follow from its messages, and from the number
of times they were sent, so that a shortened script continues as before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

from licorne_core.extensions.notice.messages import AnswerNotices, Notice, NoticeAnswer, NoticesGiven
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    NodeRefusal,
    PredicateAnswer,
    PreemptionAnswer,
    ReleaseRequest,
    TerminationType,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    AskedCheck,
    AskedNode,
    AskedPreemption,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
    Release,
)
from licorne_core.messages.events.records import Fact
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import RmId
from licorne_core.values.slices import Tuning
from support.core.builders import asks, release, releases
from support.core.driver import Driver
from support.worlds.configs import TYPES

REST = None
"""A step without a command, in which the core decides until it is idle."""
TURN = 5

T = TypeVar("T")
_T = TerminationType


class Step(NamedTuple):
    """One event at a time in Unix seconds."""

    now: float
    command: Command | None


class Players:
    """A core under the driver, and the RMs of a world."""

    def __init__(self, driver: Driver) -> None:
        """Start without registrations."""
        self.driver = driver
        self._answers = Answers(driver.scheduler)
        self._confirmations = Confirmations()
        self._resizes = Resizes(driver.scheduler)
        self._work = SavedWork(driver.scheduler)

    def step(self, step: Step) -> list[Effect]:
        """Let the RMs reply, and process a step; return all effects."""
        self.driver.now = step.now
        return [*self.reply(), *self.send(step.command)]

    def reply(self) -> list[Effect]:
        """Let the RMs send their due messages; return all effects."""
        return [effect for reply in self.due() for effect in self.send(reply)]

    def send(self, command: Command | None) -> list[Effect]:
        """Process a command, or run the core until it is idle; the RMs receive the effects."""
        effects = self.driver.run(TURN) if command is REST else self.driver.send(command)
        self.hear(effects)
        return effects

    def hear(self, effects: Sequence[Effect]) -> None:
        """Let the RMs receive the effects."""
        self._answers.hear(effects)
        self._confirmations.hear(effects)
        self._resizes.hear(effects)
        self._work.hear(effects)

    def due(self) -> list[Command]:
        """Let a step pass; return the messages of RMs that are due."""
        said = [*self._answers.due(), *self._confirmations.due(), *self._resizes.due()]
        return said + self._work.due()


def play_watched(script: Sequence[Step], tuning: Tuning | None = None) -> tuple[list[Effect], list[Fact]]:
    """All effects and all events of a core for a script."""
    players = Players(Driver(tuning=tuning))
    told = [effect for step in script for effect in players.step(step)]
    return told, players.driver.facts


class _Later(Generic[T]):
    """Pending messages of RMs, with the number of steps until then."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, RmId, T]] = []
        self._times: dict[str, int] = {}

    def put(self, steps: int, rm_id: RmId, item: T) -> None:
        self._waiting.append((steps, rm_id, item))

    def due(self) -> list[tuple[RmId, T]]:
        """Let a step pass; return the messages that are due."""
        due = [(rm_id, item) for steps, rm_id, item in self._waiting if steps <= 0]
        self._waiting = [(steps - 1, rm_id, item) for steps, rm_id, item in self._waiting if steps > 0]
        return due

    def again(self, what: str) -> str:
        """A text that names the object and the number of its judgements, as a random seed."""
        self._times[what] = self._times.get(what, 0) + 1
        return f"{what} {self._times[what]}"


def _number(text: str) -> int:
    return crc32(text.encode()) >> 8


def _by_rm(items: Iterable[tuple[RmId, T]]) -> dict[RmId, list[T]]:
    found: dict[RmId, list[T]] = {}
    for rm_id, item in items:
        found.setdefault(rm_id, []).append(item)
    return found


# Answers to checks

REASONS = ("taint", "affinity", "volume")
ANSWERED = (0, 0, 0, 0, 1, 1, 2, 5, None, None)
"""Steps until an answer is sent, None for never."""


class Answers:
    """Answers to checks of nodes and of victims; asks of one class are judged alike."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Start without checks; the attributes of asks are read from the core."""
        self._scheduler = scheduler
        self._nodes: _Later[PredicateAnswer] = _Later()
        self._victims: _Later[PreemptionAnswer] = _Later()

    def hear(self, effects: Iterable[Effect]) -> None:
        """Receive the checks among the effects."""
        for effect in effects:
            if isinstance(effect, PredicatesAsked):
                for check in effect.checks:
                    self._consider(effect, check)
            elif isinstance(effect, PreemptionsAsked):
                for question in effect.checks:
                    self._weigh(effect.rm_id, question)

    def due(self) -> list[Command]:
        """Let a step pass; return the answers that are due, those of an RM together."""
        nodes, victims = _by_rm(self._nodes.due()), _by_rm(self._victims.due())
        due: list[Command] = [AnswerPredicates(rm_id=rm_id, answers=a) for rm_id, a in nodes.items()]
        return due + [AnswerPreemptions(rm_id=rm_id, answers=a) for rm_id, a in victims.items()]

    def _consider(self, asked: PredicatesAsked, check: AskedCheck) -> None:
        opinion = f"{asked.rm_id} {self._opinion(asked, check)}"
        refused = [
            NodeRefusal(node_id=node_id, reason=REASONS[judged % len(REASONS)])
            for node_id in check.nodes
            for judged in [self._judge(f"{opinion} {node_id} {check.allocate}")]
            if judged % 5 < (2 if check.allocate else 3)
        ]
        patience = self._judge(f"{asked.rm_id} {check.key} {check.nodes[0]}")
        delay = ANSWERED[patience % len(ANSWERED)]
        if delay is not None:
            self._nodes.put(delay, asked.rm_id, PredicateAnswer(check.check, refused))

    def _weigh(self, rm_id: RmId, question: AskedPreemption) -> None:
        """Judge victims: some nodes are refused, on others more victims are required."""
        opinion = f"{rm_id} {question.app_id} {question.key}"
        needed = {
            node.node_id: upto
            for node in question.nodes
            if (upto := self._last(f"{opinion} {node.node_id}", node)) is not None
        }
        delay = ANSWERED[self._judge(f"{opinion} victims") % len(ANSWERED)]
        if delay is not None:
            self._victims.put(delay, rm_id, PreemptionAnswer(question.check, needed))

    def _last(self, what: str, node: AskedNode) -> int | None:
        """The last victim to stop on the node; None if no stop helps."""
        mood = self._judge(what) % 8
        if mood < 2:
            return None
        return node.start + (0 if mood < 6 else mood - 5)

    def _opinion(self, asked: PredicatesAsked, check: AskedCheck) -> str | None:
        partition = self._scheduler.partitions.get(asked.partition)
        app = partition.applications.get(check.app_id) if partition else None
        request = app.requests.get(check.key) if app else None
        return request.ask.ask_class.predicate if request else None

    def _judge(self, what: str) -> int:
        return _number(self._nodes.again(what))


# Confirmations of stops

ASKED = (_T.TIMEOUT, _T.PREEMPTED_BY_SCHEDULER, _T.PLACEHOLDER_REPLACED)
"""Terminations by which the core requests a release; any other is final (spec § 1.6.10)."""

WRONG = (_T.STOPPED_BY_RM, _T.UNKNOWN, *ASKED, _T.SCHEDULING_FAILED_ON_RM)

CONFIRMED: tuple[tuple[int, ...], ...] = ((0,), (0,), (0,), (1,), (2,), (5,), (9,), (0, 0), (0, 3), ())
"""Steps until a confirmation is sent: once, twice, or not at all."""


class Confirmations:
    """Confirmations of requested stops."""

    def __init__(self) -> None:
        """Start without requested stops."""
        self._later: _Later[ReleaseRequest] = _Later()

    def hear(self, effects: Iterable[Effect]) -> None:
        """Receive the requested stops."""
        for effect in effects:
            if isinstance(effect, AllocationsReleased):
                for told in effect.releases:
                    if told.termination in ASKED:
                        self._consider(effect, told)

    def due(self) -> list[Command]:
        """Let a step pass; return the confirmations that are due, those of an RM together."""
        return [releases(*requests, rm=rm_id) for rm_id, requests in _by_rm(self._later.due()).items()]

    def _consider(self, effect: AllocationsReleased, told: Release) -> None:
        what = f"{effect.rm_id} {told.app_id} {told.key} {told.termination.name}"
        judged = _number(self._later.again(what))
        mood = judged // len(CONFIRMED)
        why = WRONG[mood // 8 % len(WRONG)] if mood % 8 == 0 else told.termination
        request = release(told.app_id, told.key, why=why, partition=effect.partition)
        for delay in CONFIRMED[judged % len(CONFIRMED)]:
            self._later.put(delay, effect.rm_id, request)


# Resizes of asks for which victims are stopped

FOR_ASK = "to free up resources to run "
RESIZED = (0, 0, 1, 1, 2, 5)
"""Steps until the ask has another size."""

FACTORS = (0.0, 0.5, 0.5, 1.0, 1.0, 2.0)
"""Factors of amounts; a type that the ask does not have counts as a small amount."""


class Resizes:
    """Resizes of asks for which a victim is to be stopped."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Start without messages; the attributes of asks are read from the core."""
        self._scheduler = scheduler
        self._later: _Later[Ask] = _Later()

    def hear(self, effects: Iterable[Effect]) -> None:
        """Receive the asks for which a victim is to be stopped."""
        for effect in effects:
            if isinstance(effect, AllocationsReleased):
                for message in dict.fromkeys(told.message for told in effect.releases):
                    if FOR_ASK in message:
                        self._consider(effect, message)

    def due(self) -> list[Command]:
        """Let a step pass; return the resizes that are due."""
        return [asks(ask, rm=rm_id) for rm_id, ask in self._later.due()]

    def _consider(self, effect: AllocationsReleased, message: str) -> None:
        """Resize every third ask, and some of these twice."""
        what = self._later.again(f"{effect.rm_id} {message}")
        judged = _number(what)
        if judged % 3:
            return
        key = message.rpartition(" ")[2]
        partition = self._scheduler.partitions.get(effect.partition)
        promised = [
            request.ask
            for app in (partition.applications.values() if partition else ())
            for request in app.reserved.values()
            if request.key == key and request.promise is not None
        ]
        for ask in promised[:1]:
            for round_ in range(1 + (judged // 3) % 2):
                mood = _number(f"{what} {round_}")
                delay = RESIZED[mood % len(RESIZED)]
                self._later.put(delay, effect.rm_id, _resized(ask, mood // len(RESIZED)))


def _resized(ask: Ask, mood: int) -> Ask:
    """The ask in another size, which may be smaller in one type and larger in another."""
    before = ask.ask_class
    size = {}
    for number, (name, little) in enumerate(TYPES.items()):
        factor = FACTORS[mood // len(FACTORS) ** number % len(FACTORS)]
        amount = before.resources.get(name, 0)
        if not amount and factor > 1:
            amount = little // 4
        size[name] = int(amount * factor)
    wanted = {name: value for name, value in size.items() if value} or dict(before.resources)
    return replace(ask, ask_class=AskClass.of(wanted, before.required_node, before.predicate))


# Answers to notices, and checkpoints

SAVED = (0, 0, 1, 2, 4, None, None)
"""Steps until a notice is answered, or a checkpoint is reported; None for never."""


class SavedWork:
    """Answers to notices of preemption, and checkpoints in queues with such notice."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Start without messages; the RM's allocations are read from the core."""
        self._scheduler = scheduler
        self._answers: _Later[NoticeAnswer] = _Later()
        self._checkpoints: _Later[Ask] = _Later()
        self._dropped: _Later[ReleaseRequest] = _Later()

    def hear(self, effects: Iterable[Effect]) -> None:
        """Receive notices, and newly started allocations."""
        for effect in effects:
            if isinstance(effect, NoticesGiven):
                for notice in effect.notices:
                    self._consider(effect, notice)
            elif isinstance(effect, AllocationsMade):
                self._save(effect)

    def due(self) -> list[Command]:
        """Let a step pass; return the answers and checkpoints that are due."""
        answers = _by_rm(self._answers.due())
        said: list[Command] = [AnswerNotices(rm_id=rm_id, answers=some) for rm_id, some in answers.items()]
        said += [releases(*some, rm=rm_id) for rm_id, some in _by_rm(self._dropped.due()).items()]
        return said + [asks(ask, rm=rm_id) for rm_id, ask in self._checkpoints.due()]

    def _consider(self, effect: NoticesGiven, notice: Notice) -> None:
        """Answer up to twice; and drop some asks for which victims were to be stopped."""
        what = self._answers.again(f"{effect.rm_id} {notice.app_id} {notice.key}")
        mood = _number(f"{what} drops")
        if notice.beneficiary_key and mood % 3 == 0:
            gone = release(notice.beneficiary_app_id, notice.beneficiary_key, partition=effect.partition)
            self._dropped.put(mood // 3 % 4, effect.rm_id, gone)
        for round_ in range(2):
            mood = _number(f"{what} {round_}")
            delay = SAVED[mood % len(SAVED)]
            if delay is not None:
                later = (0.0, 0.0, 0.3, 1.0, 9.0)[mood // len(SAVED) % 5]
                answer = NoticeAnswer(notice.app_id, notice.key, effect.partition, later)
                self._answers.put(delay, effect.rm_id, answer)

    def _save(self, effect: AllocationsMade) -> None:
        """Give some allocations a checkpoint later, maybe in the future, and others an earlier start."""
        partition = self._scheduler.partitions.get(effect.partition)
        for allocation in effect.allocations if partition else ():
            app = partition.applications.get(allocation.ask.app_id) if partition else None
            if app is None or app.leaf is None or not app.leaf.settings.of("notice"):
                continue
            mood = _number(self._checkpoints.again(f"{effect.rm_id} {allocation.key} saved"))
            delay = SAVED[mood % len(SAVED)]
            if delay is None:
                continue
            at = int(allocation.allocation_time) + (0, 1, 2, 40)[mood // 8 % 4]
            tags = {"licorne/checkpoint": str(at)} if mood // 32 % 3 else {"licorne/lost-work": str(mood % 5)}
            if mood // 128 % 2:
                tags["licorne/started"] = str(int(allocation.allocation_time) - mood // 256 % 50)
            saved = replace(_as_sent(allocation.ask), node_id=allocation.node_id, tags=tags)
            self._checkpoints.put(delay, effect.rm_id, saved)


def _as_sent(ask: Ask) -> Ask:
    """The ask in the form of an RM, with the runtime in the tags and not in the class."""
    known = ask.ask_class
    return replace(ask, ask_class=AskClass.of(known.resources, known.required_node, known.predicate))
