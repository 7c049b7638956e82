"""The core's work in detail, at level `debug` of `core.scheduler` or below.

There is a line for each command, each busy turn, and each decision that ends something or asks the
RM. They are made of commands, effects and counters; nothing is looked up while the level is off.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    NotePredicatesSent,
    OfNoRm,
    RegisterRm,
    RemoveRm,
    Tick,
    UpdateConfiguration,
)
from licorne_core.messages.effects import Effect, NotRegistered, Unfinished
from licorne_core.partitions.partition import Partition
from licorne_core.values.counters import Counters
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.views import Views
from licorne_server.telemetry.logs import levels, note_lost
from licorne_server.telemetry.logs.levels import COMMANDS, CONFIGURATIONS, PREDICATES, TURNS
from licorne_server.telemetry.scheduler_acts import acts_told, size_of, summary, tell_acts

_commands = structlog.get_logger(COMMANDS)
_configurations = structlog.get_logger(CONFIGURATIONS)
_predicates = structlog.get_logger(PREDICATES)
_turns = structlog.get_logger(TURNS)

WAITING_SECONDS = 1.0
"""Seconds between two counts of a partition's waiting asks."""

MOST_COUNTED = 2_000
"""Applications and groups of asks that are looked at for that."""

Counts = dict[str, Any]


class SchedulerLog:
    """Writes the lines of one server; the engine's `Witness`."""

    seen: dict[RmId, "_Seen"]
    """The state last logged of registered RMs, while logging is on."""

    def __init__(
        self, views: Views, last_turn: Callable[[], Partition | None], now: Callable[[], float]
    ) -> None:
        """`last_turn` gives the partition of the last tick's turn; `now` is in unix seconds."""
        self._views = views
        self._last_turn = last_turn
        self._now = now
        self._levels = levels()
        self._thresholds = {
            name: self._levels.threshold(name) for name in (COMMANDS, CONFIGURATIONS, PREDICATES, TURNS)
        }
        # As of which change of the levels `_looks` is right.
        self._known = -1
        self._looks = False
        self.seen = {}

    @property
    def looks(self) -> bool:
        """True if any of these lines is wanted."""
        if self._known != self._levels.changes:
            self._known = self._levels.changes
            self._looks = acts_told() or any(self._tells(name) for name in self._thresholds)
            self.seen.clear()
        return self._looks

    def saw(self, command: Command, effects: Sequence[Effect], seconds: float) -> None:
        """Log a command or a tick of so many seconds, and its effects."""
        try:
            if isinstance(command, Tick):
                self._tell_tick(effects, seconds)
            elif not isinstance(command, OfNoRm):
                self._tell_command(command, effects, seconds)
                self._forget_gone(command, effects)
            tell_acts(effects)
        except Exception:  # the core goes on whatever becomes of its log
            note_lost("core.scheduler")

    def _tells(self, name: str) -> bool:
        return self._thresholds[name].debugs

    def _tell_command(self, command: Any, effects: Sequence[Effect], seconds: float) -> None:
        rm_id = command.rm_id
        about = {**summary(effects), "ms": _ms(seconds)}
        match command:
            case NotePredicatesSent():
                pass
            case AnswerPredicates():
                if self._tells(PREDICATES) and not _is_unknown(effects):
                    counts = self._answers(command)
                    _predicates.debug("predicates answered", rm_id=rm_id, **counts, **about)
            case AnswerPreemptions():
                if self._tells(PREDICATES):
                    answers = len(command.answers)
                    _predicates.debug("victims answered", rm_id=rm_id, answers=answers, **about)
            case RegisterRm() | UpdateConfiguration():
                if self._tells(CONFIGURATIONS):
                    what = "registration" if isinstance(command, RegisterRm) else "configuration"
                    last = _is_over(effects)
                    _configurations.debug(f"{what} step", rm_id=rm_id, last=last, **about)
            case _:
                if self._tells(COMMANDS):
                    name = type(command).__name__
                    size = size_of(command)
                    _commands.debug("command", rm_id=rm_id, command=name, **size, **about)

    def _forget_gone(self, command: Command, effects: Sequence[Effect]) -> None:
        """Drop the state of an RM, its books or partitions that the command removed."""
        match command:
            case RemoveRm() | RegisterRm() if _is_over(effects):
                self.seen.pop(command.rm_id, None)
            case UpdateConfiguration() if _is_over(effects) and command.rm_id in self.seen:
                seen = self.seen[command.rm_id].partitions
                for name in seen.keys() - self._views.partition_names(command.rm_id):
                    del seen[name]
            case _:
                pass

    def _answers(self, command: AnswerPredicates) -> Counts:
        """Answers of an RM; late ones are counted since the last look."""
        refusals = [len(answer.refused) for answer in command.answers]
        seen = self.seen.setdefault(command.rm_id, _Seen())
        before, seen.late = seen.late, self._views.answers_late(command.rm_id)
        return {
            "answers": len(refusals),
            "accepted": refusals.count(0),
            "refused": len(refusals) - refusals.count(0),
            "refused_nodes": sum(refusals),
            "late": 0 if before is None else max(0, seen.late - before),
        }

    def _tell_tick(self, effects: Sequence[Effect], seconds: float) -> None:
        """Log the turn, and the effects of deadlines for other RMs."""
        partition = self._last_turn()
        by_rm: dict[RmId, list[Effect]] = {}
        for effect in effects:
            by_rm.setdefault(effect.rm_id, []).append(effect)
        if partition is not None and (self._tells(TURNS) or self._tells(PREDICATES)):
            self._tell_turn(partition.name, by_rm.pop(partition.rm_id, []), seconds)
        if self._tells(TURNS):
            for rm_id, those in by_rm.items():
                if counts := summary(those):
                    _turns.debug("deadlines", rm_id=rm_id, **counts)

    def _tell_turn(self, partition: PartitionName, effects: Sequence[Effect], seconds: float) -> None:
        rm_id = rm_of(partition)
        try:
            counters = self._views.counters(partition)
        except NotFound:  # it went with the last effect
            counts = summary(effects)
        else:
            partitions = self.seen.setdefault(rm_id, _Seen()).partitions
            seen = partitions.setdefault(partition, _SeenPartition())
            overdue = seen.overdue(counters)
            if overdue and self._tells(PREDICATES):
                about = {"partition": partition, "checks": overdue}
                _predicates.debug("predicates overdue", rm_id=rm_id, **about)
            counts = {**seen.turn(counters), **summary(effects)}
            if counts and self._tells(TURNS):
                counts |= self._who_waits(partition, seen)
        if counts and self._tells(TURNS):
            _turns.debug("turn", rm_id=rm_id, partition=partition, **counts, ms=_ms(seconds))

    def _who_waits(self, partition: PartitionName, seen: "_SeenPartition") -> Counts:
        """Waiting asks by reason, at intervals; `waiting_more` if there are others."""
        now = self._now()
        if now < seen.waiting + WAITING_SECONDS:
            return {}
        seen.waiting = now
        waiting, is_all = self._views.waiting(partition, MOST_COUNTED)
        counts: Counts = {"waiting": waiting} if waiting else {}
        return counts if is_all else {**counts, "waiting_more": True}


class _SeenPartition:
    """Counters of a partition in the last of its logged turns."""

    def __init__(self) -> None:
        """Start without a turn."""
        self._counted: tuple[int, int, int] | None = None
        self._overdue: int | None = None
        self.waiting = 0.0
        """Time of the last count of waiting asks."""

    def turn(self, counters: Counters) -> Counts:
        """Tries and reservations of the turn; empty for nothing, and for the first turn logged.

        There was no look before that turn.
        """
        before = self._counted
        after = (counters.asks_tried, counters.reservations_made, counters.turns)
        self._counted = after
        if before is None or after[2] != before[2] + 1:
            return {}
        names = ("tried", "reserved")
        moved = (new - old for new, old in zip(after, before, strict=True))
        return {name: count for name, count in zip(names, moved, strict=False) if count}

    def overdue(self, counters: Counters) -> int:
        """Checks that the RM did not answer in time, since the last look."""
        before, self._overdue = self._overdue, counters.checks_overdue
        return 0 if before is None else self._overdue - before


class _Seen:
    """The state last logged of an RM."""

    def __init__(self) -> None:
        """Start without state."""
        self.late: int | None = None
        """Number of its late answers."""
        self.partitions: dict[PartitionName, _SeenPartition] = {}


def _is_over(effects: Sequence[Effect]) -> bool:
    """True if nothing is left of a command that is carried out in steps."""
    return not (effects and isinstance(effects[-1], Unfinished))


def _is_unknown(effects: Sequence[Effect]) -> bool:
    """True if a command was for an RM that is not registered."""
    return any(isinstance(effect, NotRegistered) for effect in effects[:1])


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
