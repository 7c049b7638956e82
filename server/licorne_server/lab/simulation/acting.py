"""Simulates the acts of RMs in a run that differs from the live one.

From its placement in this run an allocation runs for as long as in the live run. If the live run stopped it,
or never placed it, it runs for the mean time of its application or RM; if it still ran at the end of the
journal, it runs until the end. An RM refuses a node to a class of asks if its last live answer about both was
a refusal, and accepts all others. It confirms requests to stop after its mean time in the live run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from licorne_core.messages.commands import (
    CONFIRMED,
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    NodeRefusal,
    NotePredicatesSent,
    PredicateAnswer,
    PreemptionAnswer,
    ReleaseRequest,
    TerminationType,
    UpdateAllocations,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    AskedCheck,
    AskedPreemption,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.values.asks import Ask
from licorne_core.values.errors import Refusal
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId, rm_of
from licorne_server.lab.simulation.lives import End, Lives, Place
from licorne_server.lab.simulation.player import Player

AppPlace = tuple[PartitionName, AppId]
"""Identity of an application."""


@dataclass(slots=True, kw_only=True)
class Carried:
    """Numbers of inputs that were carried over, and of inputs that do not apply to this run."""

    inputs: int = 0
    """Commands handled at their recorded time, with or without changes."""
    retimed: int = 0
    """Releases that were moved to the time at which the work was done in this run."""
    estimated: int = 0
    """Allocations without a known runtime."""
    answered: int = 0
    """Checks that were answered as in the live run or, without a live answer, accepted."""
    refused: int = 0
    """Nodes that these answers refused."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Items that could not be carried over, by reason."""


class Running(NamedTuple):
    """A running allocation, and the time at which its work is done; inf for never."""

    ask: Ask
    node_id: NodeId
    end: float


class _Event(NamedTuple):
    """A later act of an RM. `session` is the number of the RM's registration."""

    time: float
    number: int
    rm_id: RmId
    session: int
    command: Command | None
    place: Place | None


class Acting:
    """The running allocations of a core, and the next acts of its RMs."""

    running: dict[AppPlace, dict[AllocationKey, Running]]
    """Allocations that the core has placed."""
    early: dict[AppPlace, dict[AllocationKey, None]]
    """Allocations that have ended in this run, but perhaps not in the live run yet."""

    def __init__(self, player: Player, lives: Lives, gone: Callable[[AppPlace], None]) -> None:
        """Act in this player's core; `gone` is called with the application of each ended allocation."""
        self.carried = Carried()
        self.running = {}
        self.early = {}
        self._player = player
        self._views = player.scheduler.views
        self._lives = lives
        self._gone = gone
        self._events: list[_Event] = []
        self._number = 0
        self._sessions: Counter[RmId] = Counter()

    def advance(self, until: float) -> None:
        """Run all turns and acts of RMs up to a time, in unix seconds."""
        while True:
            due = self._events[0].time if self._events else inf
            for effects in self._player.advance(min(due, until)):
                self.follow(effects)
                if self._events and self._events[0].time < due:
                    break
            else:
                if due > until:
                    return
                self._happen(heappop(self._events))

    def feed(self, command: Command) -> None:
        """Handle a command at the current time, and follow its effects."""
        self.follow(self._player.feed(self._player.now, command))

    def follow(self, effects: Iterable[Effect]) -> None:
        """Update the running allocations, and answer, according to effects of the core."""
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                for made in effect.allocations:
                    if not made.ask.node_id:
                        place = (effect.partition, made.ask.app_id, made.key)
                        self.runs(place, made.ask, made.node_id, self._player.now)
            elif isinstance(effect, AllocationsReleased):
                self._released(effect)
            elif isinstance(effect, PredicatesAsked | PreemptionsAsked):
                self.answer(effect.rm_id, effect.checks)
            elif isinstance(effect, AllocationsRejected):
                gone = sum(one.code is Refusal.UNKNOWN_APPLICATION for one in effect.rejections)
                self.leave_out("asks of applications that are over or were refused", gone)

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count items that could not be carried over."""
        if count:
            self.carried.left_out[reason] += count

    def runs(self, place: Place, ask: Ask, node_id: NodeId, placed: float) -> None:
        """Record a running allocation; its work takes as long as it did in the live run."""
        life = self._lives.find(place)
        seconds: float | None = inf
        if life is not None and life.end is End.BY_RM:
            seconds = life.ended - life.placed
        elif not ask.placeholder and (life is None or life.end is End.CUT):
            seconds = self._lives.usual(place)
            self.carried.estimated += 1
        end = placed + (inf if seconds is None else seconds)
        self.running.setdefault(place[:2], {})[place[2]] = Running(ask, node_id, end)
        if end < inf:
            self._at(end, rm_of(place[0]), place=place)

    def ends(self, place: Place) -> bool:
        """Record the end of an allocation; returns False if it was not running."""
        of_app = self.running.get(place[:2], {})
        if of_app.pop(place[2], None) is None:
            return False
        if not of_app:
            del self.running[place[:2]]
        self.early.setdefault(place[:2], {})[place[2]] = None
        return True

    def was_early(self, place: Place) -> bool:
        """True if the simulation has already ended an allocation that ends now in the live run; only once."""
        of_app = self.early.get(place[:2], {})
        if place[2] not in of_app:
            return False
        del of_app[place[2]]
        if not of_app:
            del self.early[place[:2]]
        return True

    def forget(self, of: AppPlace) -> None:
        """Drop the state of an ended application."""
        self.running.pop(of, None)
        self.early.pop(of, None)

    def confirm(self, place: Place, termination: TerminationType) -> None:
        """Schedule the RM's confirmation that it has stopped an allocation."""
        rm_id = rm_of(place[0])
        release = ReleaseRequest(app_id=place[1], key=place[2], termination=termination, partition=place[0])
        later = self._player.now + self._lives.delay(rm_id)
        self._at(later, rm_id, UpdateAllocations(rm_id=rm_id, releases=[release]), place)

    def answer(self, rm_id: RmId, checks: Sequence[AskedCheck | AskedPreemption]) -> None:
        """Answer checks for the RM immediately."""
        now = self._player.now
        self._at(now, rm_id, NotePredicatesSent(rm_id=rm_id, check=checks[-1].check))
        asked = [
            PredicateAnswer(check.check, self._refused(rm_id, check))
            for check in checks
            if isinstance(check, AskedCheck)
        ]
        if asked:
            self._at(now, rm_id, AnswerPredicates(rm_id=rm_id, answers=asked))
        judged = [
            PreemptionAnswer(check.check, {node.node_id: node.start for node in check.nodes})
            for check in checks
            if isinstance(check, AskedPreemption)
        ]
        if judged:
            self._at(now, rm_id, AnswerPreemptions(rm_id=rm_id, answers=judged))
        self.carried.answered += len(checks)

    def restart(self, rm_id: RmId) -> list[Place]:
        """Record that the core drops an RM's books; returns its allocations; their ends stay scheduled."""
        self._sessions[rm_id] += 1
        self._events = [one for one in self._events if one.rm_id != rm_id or one.command is None]
        heapify(self._events)
        return [(*of, key) for of, keys in self.running.items() if rm_of(of[0]) == rm_id for key in keys]

    def _released(self, effect: AllocationsReleased) -> None:
        for release in effect.releases:
            place = (effect.partition, release.app_id, release.key)
            if release.termination in CONFIRMED:
                self.confirm(place, release.termination)
            elif self.ends(place):
                # The RM's own releases were handled before, so the removal of the node has caused this end.
                self.leave_out("allocations that ended with their nodes")

    def _refused(self, rm_id: RmId, check: AskedCheck) -> list[NodeRefusal]:
        """The nodes of a check that the RM has refused for an ask of this kind."""
        names = self._views.partition_names(rm_id)
        found = (self._views.request(name, check.app_id, check.key) for name in names)
        request = next((one for one in found if one is not None), None)
        if request is None:
            return []
        refused = []
        for node_id in check.nodes:
            reason = self._lives.refusal(rm_id, request.ask.ask_class, node_id)
            if reason is not None:
                refused.append(NodeRefusal(node_id=node_id, reason=reason))
        self.carried.refused += len(refused)
        return refused

    def _at(
        self, time: float, rm_id: RmId, command: Command | None = None, place: Place | None = None
    ) -> None:
        """Schedule a command of the RM; if `command` is None, the release of its finished allocations."""
        self._number += 1
        heappush(self._events, _Event(time, self._number, rm_id, self._sessions[rm_id], command, place))

    def _happen(self, event: _Event) -> None:
        place, command = event.place, event.command
        if command is None:
            assert place is not None
            run = self.running.get(place[:2], {}).get(place[2])
            if run is None or run.end != event.time:
                return
            self.carried.retimed += 1
            release = ReleaseRequest(app_id=place[1], key=place[2], partition=place[0])
            command = UpdateAllocations(rm_id=event.rm_id, releases=[release])
        if place is not None:
            self.ends(place)
        self.feed(command)
        if place is not None:
            self._gone(place[:2])
