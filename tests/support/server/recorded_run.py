"""Runs that are recorded in memory, as a server with a journal records them."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import inf

from licorne_core.messages.commands import (
    AnswerPredicates,
    Command,
    NodeRefusal,
    NotePredicatesSent,
    Options,
    PredicateAnswer,
)
from licorne_core.messages.effects import AllocationsMade, AllocationsReleased, Effect, PredicatesAsked
from licorne_core.values.ids import NodeId
from licorne_server.journal.digest import DigestOf
from licorne_server.journal.records import Digest, Header, Input, Record
from licorne_server.simulation.lives import CONFIRMED
from licorne_server.simulation.player import Player
from licorne_server.simulation.replaying import scheduler_of
from support.core.builders import release, releases

OPTIONS = Options()
CONFIRMS = 0.25
"""Seconds in which RMs confirm a stop."""


class RecordedRun:
    """A core in virtual time with RMs that release, confirm and answer by themselves, all recorded."""

    def __init__(self, options: Options = OPTIONS, start: float = 0.0) -> None:
        """Begin with an empty core."""
        self.player = Player(scheduler_of(options), self, now=start)
        self.records: list[Record] = [Header(run=1, version="test", start=start, options=options)]
        self.refused: dict[str, str] = {}
        """Nodes that RMs refuse to every ask with a predicate, and why."""
        self.placed: dict[str, tuple[float, str]] = {}
        """Time and node of each allocation by its key."""
        self._runtimes: dict[str, float] = {}
        self._digest = DigestOf()
        self._count = 0
        self._later: list[tuple[float, int, Command]] = []

    def passes(self, now: float) -> None:
        """A digest is written before the next input, as by a server."""
        self.records.append(Digest(self._count, self._digest.value()))

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Record the input."""
        self.records.append(Input(now, command))
        self._count += 1
        self._digest.saw(effects)

    def run_for(self, seconds: float, *keys: str) -> None:
        """Release these keys so long after they are placed."""
        self._runtimes |= dict.fromkeys(keys, seconds)

    def at(self, now: float, *commands: Command) -> None:
        """Let time pass until now, and hand in commands."""
        self._pass(now)
        for command in commands:
            self._follow(self.player.feed(now, command))
            self._pass(now)

    def read(self) -> Iterator[Record]:
        """The records, from the beginning."""
        self.passes(self.player.now)
        return iter(self.records)

    def _pass(self, now: float) -> None:
        while True:
            due = self._later[0][0] if self._later else inf
            for effects in self.player.advance(min(due, now)):
                self._follow(effects)
                if self._later and self._later[0][0] < due:
                    break
            else:
                if due > now:
                    return
                self._follow(self.player.feed(self.player.now, heappop(self._later)[2]))

    def _do(self, seconds: float, command: Command) -> None:
        place = len(self.records) + len(self._later)
        heappush(self._later, (self.player.now + seconds, place, command))

    def _follow(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                for made in effect.allocations:
                    self.placed[made.key] = (self.player.now, made.node_id)
                    if made.key in self._runtimes:
                        done = release(made.ask.app_id, made.key, partition=effect.partition)
                        self._do(self._runtimes[made.key], releases(done, rm=effect.rm_id))
            elif isinstance(effect, AllocationsReleased):
                for told in effect.releases:
                    if told.termination in CONFIRMED:
                        why = told.termination
                        done = release(told.app_id, told.key, why=why, partition=effect.partition)
                        self._do(CONFIRMS, releases(done, rm=effect.rm_id))
            elif isinstance(effect, PredicatesAsked):
                self._answer(effect)

    def _answer(self, effect: PredicatesAsked) -> None:
        rm_id = effect.rm_id
        self._do(0.0, NotePredicatesSent(rm_id=rm_id, check=effect.checks[-1].check))
        answers = [
            PredicateAnswer(
                check.check,
                [
                    NodeRefusal(node_id=NodeId(node_id), reason=self.refused[node_id])
                    for node_id in check.nodes
                    if node_id in self.refused
                ],
            )
            for check in effect.checks
        ]
        self._do(0.0, AnswerPredicates(rm_id=rm_id, answers=answers))
