"""Outcomes of the allocations of a run, and answers of its RMs: for a replay with changes.

They are stored in a temporary database, to save memory.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from licorne_core.messages.commands import (
    CONFIRMED,
    AnswerPredicates,
    Command,
    RegisterRm,
    RemoveRm,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
)
from licorne_core.messages.effects import AllocationsMade, AllocationsReleased, Effect, PredicatesAsked
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId, rm_of

Place = tuple[PartitionName, AppId, AllocationKey]
"""Identity of an ask, and of its allocation."""

MOST_CHECKS: Final = 100_000
"""Maximum number of open checks; beyond it the oldest are dropped."""

_CACHE = "PRAGMA cache_size = -32000"
_ADD_RUNTIME = """
INSERT INTO runtimes VALUES (?, 1, ?)
ON CONFLICT (id) DO UPDATE SET count = count + 1, total = total + excluded.total
"""
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE lives (id BLOB PRIMARY KEY, node TEXT, placed REAL, ended REAL, end INTEGER) WITHOUT ROWID;
CREATE TABLE runtimes (id BLOB PRIMARY KEY, count INTEGER, total REAL) WITHOUT ROWID;
CREATE TABLE refusals (id BLOB PRIMARY KEY, reason TEXT) WITHOUT ROWID;
"""


class End(IntEnum):
    """Kind of an allocation's end."""

    RUNS = 0
    """The allocation still runs at the end of the run."""
    BY_RM = 1
    """The RM released the allocation, or ended its application: the work was done."""
    CUT = 2
    """The allocation was stopped, or its node was removed: the work was not done."""


class Life(NamedTuple):
    """An allocation in the live run, with times in unix seconds; if it `RUNS`, `ended` is the run's end."""

    node: str
    placed: float
    ended: float
    end: End


class Lives:
    """Watches a replay, and stores the outcome of each allocation that the core has placed."""

    rms: set[RmId]
    """RMs that have registered."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Follow this scheduler."""
        self.rms = set()
        self._views = scheduler.views
        # An empty name means a private temporary file, which is deleted when it is closed.
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(_CACHE)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        # The allocations of each application, with node and time of placement.
        self._running: dict[tuple[PartitionName, AppId], dict[AllocationKey, tuple[str, float]]] = {}
        self._asked: dict[Place, float] = {}
        self._runtimes: dict[RmId, tuple[int, float]] = {}
        self._delays: dict[RmId, tuple[int, float]] = {}
        self._checks: dict[tuple[RmId, int], tuple[bytes, Sequence[NodeId]]] = {}
        self._has_refusals = False

    def passes(self, now: float) -> None:
        """Do nothing: no outcome depends on the time alone."""

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Follow allocations, confirmations and answers."""
        self._note_command(command, now)
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                for made in effect.allocations:
                    if not made.ask.node_id:
                        of_app = self._running.setdefault((effect.partition, made.ask.app_id), {})
                        of_app.setdefault(made.key, (made.node_id, now))
            elif isinstance(effect, AllocationsReleased):
                self._note_stops(effect, now)
            elif isinstance(effect, PredicatesAsked):
                self._note_checks(effect)

    def close(self, now: float) -> None:
        """Store running allocations at the end of the replay; nothing is followed afterwards."""
        for (partition, app_id), of_app in list(self._running.items()):
            for key in list(of_app):
                request = self._views.request(partition, app_id, key)
                # After a restart, an allocation that its RM has not reported again counts as ended.
                runs = request is not None and request.is_booked
                self._keep((partition, app_id, key), now, End.RUNS if runs else End.CUT)

    # Queries after the replay.

    def find(self, place: Place) -> Life | None:
        """The outcome of an ask; None if the core has not placed it."""
        found = self._database.execute(
            "SELECT node, placed, ended, end FROM lives WHERE id = ?", (_digest(*place),)
        ).fetchone()
        return None if found is None else Life(found[0], found[1], found[2], End(found[3]))

    def usual(self, place: Place) -> float | None:
        """Mean runtime in the application of an ask, or else in its RM, in seconds; None if unknown."""
        found = self._database.execute(
            "SELECT count, total FROM runtimes WHERE id = ?", (_digest(*place[:2]),)
        ).fetchone()
        count, total = found or self._runtimes.get(rm_of(place[0]), (0, 0.0))
        return total / count if count else None

    def refusal(self, rm_id: RmId, ask_class: AskClass, node_id: NodeId) -> str | None:
        """The reason of the RM's last refusal of a node for a class of asks; None if it accepts the node."""
        if not self._has_refusals:
            return None
        key = _digest(_class_digest(rm_id, ask_class), node_id)
        found = self._database.execute("SELECT reason FROM refusals WHERE id = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def delay(self, rm_id: RmId) -> float:
        """Mean time that an RM needed to confirm releases, in seconds."""
        count, total = self._delays.get(rm_id, (0, 0.0))
        return total / count if count else 0.0

    # Inputs and effects that are followed.

    def _note_command(self, command: Command, now: float) -> None:
        if isinstance(command, UpdateAllocations):
            self._note_releases(command, now)
        elif isinstance(command, UpdateApplications):
            for removal in command.remove:
                partition = self._views.partition_meant(command.rm_id, removal.partition)
                if partition is not None:
                    self._end_all(partition, removal.app_id, now)
        elif isinstance(command, AnswerPredicates):
            self._note_answers(command)
        elif isinstance(command, RegisterRm | RemoveRm):
            self.rms.add(command.rm_id)
            self._checks = {key: one for key, one in self._checks.items() if key[0] != command.rm_id}

    def _note_releases(self, command: UpdateAllocations, now: float) -> None:
        for release in command.releases:
            partition = self._views.partition_meant(command.rm_id, release.partition)
            if partition is None:
                continue
            if not release.key:
                self._end_all(partition, release.app_id, now)
                continue
            place = (partition, release.app_id, release.key)
            asked = self._asked.pop(place, None)
            if asked is not None:
                count, total = self._delays.get(command.rm_id, (0, 0.0))
                self._delays[command.rm_id] = (count + 1, total + now - asked)
            if not self._runs(place):
                continue
            if release.termination is TerminationType.SCHEDULING_FAILED_ON_RM:
                self._forget(place)
            else:
                is_cut = asked is not None or release.termination in CONFIRMED
                self._keep(place, now, End.CUT if is_cut else End.BY_RM)

    def _note_stops(self, effect: AllocationsReleased, now: float) -> None:
        for release in effect.releases:
            place = (effect.partition, release.app_id, release.key)
            if release.termination in CONFIRMED:
                self._asked[place] = now
            elif self._runs(place):
                # The RM's own releases were recorded before, so the removal of the node has caused this end.
                self._asked.pop(place, None)
                self._keep(place, now, End.CUT)

    def _runs(self, place: Place) -> bool:
        return place[2] in self._running.get(place[:2], ())

    def _end_all(self, partition: PartitionName, app_id: AppId, now: float) -> None:
        for key in list(self._running.get((partition, app_id), ())):
            place = (partition, app_id, key)
            self._asked.pop(place, None)
            self._keep(place, now, End.BY_RM)

    def _forget(self, place: Place) -> tuple[str, float]:
        of_app = self._running[place[:2]]
        found = of_app.pop(place[2])
        if not of_app:
            del self._running[place[:2]]
        return found

    def _keep(self, place: Place, now: float, end: End) -> None:
        node, placed = self._forget(place)
        row = (_digest(*place), node, placed, now, int(end))
        self._database.execute("INSERT OR REPLACE INTO lives VALUES (?, ?, ?, ?, ?)", row)
        if end is End.BY_RM:
            self._database.execute(_ADD_RUNTIME, (_digest(*place[:2]), now - placed))
            rm_id = rm_of(place[0])
            count, total = self._runtimes.get(rm_id, (0, 0.0))
            self._runtimes[rm_id] = (count + 1, total + now - placed)

    def _note_checks(self, effect: PredicatesAsked) -> None:
        for check in effect.checks:
            request = self._views.request(effect.partition, check.app_id, check.key)
            if request is not None:
                digest = _class_digest(effect.rm_id, request.ask.ask_class)
                self._checks[effect.rm_id, check.check] = (digest, check.nodes)
        while len(self._checks) > MOST_CHECKS:
            del self._checks[next(iter(self._checks))]

    def _note_answers(self, command: AnswerPredicates) -> None:
        for answer in command.answers:
            known = self._checks.pop((command.rm_id, answer.check), None)
            if known is None:
                continue
            digest, nodes = known
            refused = {refusal.node_id: refusal.reason for refusal in answer.refused}
            if refused:
                self._has_refusals = True
                rows = [(_digest(digest, node_id), reason) for node_id, reason in refused.items()]
                self._database.executemany("INSERT OR REPLACE INTO refusals VALUES (?, ?)", rows)
            if self._has_refusals:
                accepted = [(_digest(digest, one),) for one in nodes if one not in refused]
                self._database.executemany("DELETE FROM refusals WHERE id = ?", accepted)


def _digest(*parts: str | bytes) -> bytes:
    """A short key, unique to these parts."""
    digest = blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def _class_digest(rm_id: RmId, ask_class: AskClass) -> bytes:
    parts: Iterable[str] = (f"{name}={value}" for name, value in ask_class.items)
    return _digest(rm_id, ask_class.predicate or "", ask_class.required_node or "", *parts)
