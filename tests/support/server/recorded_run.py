"""Runs recorded in memory in the form of a server's journal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from typing import Any

from licorne_core.messages.commands import (
    CONFIRMED,
    AnswerPredicates,
    Command,
    LargeCommand,
    NodeRefusal,
    NotePredicatesSent,
    Options,
    PredicateAnswer,
)
from licorne_core.messages.effects import AllocationsMade, AllocationsReleased, Effect, PredicatesAsked
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import NodeId, RmId
from licorne_server.engine.journal.codec import entry, heading, together
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.folder import MAGIC, frame
from licorne_server.engine.journal.records import Digest, Header, Input, Record
from licorne_server.engine.journal.table import Again
from licorne_server.lab.simulation.player import Player
from licorne_server.lab.simulation.replaying import scheduler_of
from support.core.builders import release, releases

OPTIONS = Options()
CONFIRMS = 0.25
"""Seconds after which RMs confirm a stop."""


class Recorder:
    """Records the inputs of a core, with the digest of all decisions before each."""

    def __init__(self, options: Options = OPTIONS, start: float = 0.0) -> None:
        """Begin with an empty core."""
        self.records: list[Record] = [Header(run=1, version="test", start=start, options=options)]
        self.now = start
        self._digest = DigestOf()
        self._count = 0

    def passes(self, now: float) -> None:
        """Write the digest that a server writes before its next input."""
        self.now = now
        self.records.append(Digest(self._count, self._digest.value()))

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Record the input."""
        self.records.append(Input(now, command))
        self._count += 1
        self._digest.saw(effects)

    def read(self) -> Iterator[Record]:
        """The records, from the beginning."""
        self.passes(self.now)
        return iter(self.records)

    def save(self, folder: Path, run: int = 1) -> Path:
        """Write the records into a journal as one of its runs; return the file."""
        [header, *records] = self.read()
        assert isinstance(header, Header)
        begun: dict[RmId, Command] = {}
        entries = []
        now = header.start
        for record in records:
            if isinstance(record, Digest):
                entries.append(entry(now, record))
            elif isinstance(record, Input):
                now, what = record.now, record.command
                if isinstance(what, LargeCommand) and begun.get(what.rm_id) is what:
                    entries.append(entry(now, Again(what.rm_id)))
                    continue
                if isinstance(what, LargeCommand):
                    begun[what.rm_id] = what
                entries.append(entry(now, what))
        folder.mkdir(exist_ok=True)
        file = folder / f"{run:06}-0001.ljr"
        head = heading(replace(header, run=run), 1)
        file.write_bytes(MAGIC + frame(head) + b"".join(frame(together([one])) for one in entries))
        return file


class Recorded:
    """A scheduler whose commands are recorded."""

    def __init__(self, scheduler: Scheduler, recorder: Recorder) -> None:
        """Record all that this scheduler handles from now on."""
        self._scheduler = scheduler
        self._recorder = recorder

    def handle(self, command: Command, now: float) -> list[Effect]:
        """See the scheduler."""
        self._recorder.passes(now)
        effects = self._scheduler.handle(command, now)
        self._recorder.saw(now, command, effects)
        return effects

    def __getattr__(self, name: str) -> Any:
        """Delegate to the scheduler."""
        return getattr(self._scheduler, name)


class RecordedRun(Recorder):
    """A core in virtual time with RMs that release, confirm and answer by themselves; all is recorded."""

    def __init__(self, options: Options = OPTIONS, start: float = 0.0) -> None:
        """Begin with an empty core."""
        super().__init__(options, start)
        self.player = Player(scheduler_of(options), self, now=start)
        self.refused: dict[str, str] = {}
        """Nodes that RMs refuse to every ask with a predicate, with the reason."""
        self.placed: dict[str, tuple[float, str]] = {}
        """Time and node of each allocation by its key."""
        self._runtimes: dict[str, float] = {}
        self._later: list[tuple[float, int, Command]] = []

    def run_for(self, seconds: float, *keys: str) -> None:
        """Let RMs release these keys that many seconds after they are placed."""
        self._runtimes |= dict.fromkeys(keys, seconds)

    def at(self, now: float, *commands: Command) -> None:
        """Let time pass until `now`, and process commands then."""
        self._pass(now)
        for command in commands:
            self._follow(self.player.feed(now, command))
            self._pass(now)

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
