"""The core's work in detail, at level `debug` of `core.scheduler` or loggers below it.

There is a line for each command, each busy turn, and each decision that ends an allocation or sends the RM a
check. Lines are made from commands, effects and counters; they cost nothing while all levels are off.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    EndReplay,
    NotePredicatesSent,
    OfNoRm,
    RegisterRm,
    RemoveRm,
    SetHold,
    TerminationType,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    ConfigurationRefused,
    Effect,
    ExtensionEffect,
    NodesAnswered,
    NotRegistered,
    OperatorRefused,
    PredicatesAsked,
    PreemptionsAsked,
    RegistrationFailed,
    Release,
    Unfinished,
)
from licorne_core.messages.reports import Turn
from licorne_core.values.counters import Counters
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.views import Views
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.logs.levels import (
    COMMANDS,
    CONFIGURATIONS,
    GANGS,
    PREDICATES,
    PREEMPTION,
    TURNS,
)
from licorne_server.wire.features import telling_of

_LOGGERS = (COMMANDS, CONFIGURATIONS, GANGS, PREDICATES, PREEMPTION, TURNS)
_LOGS = {name: structlog.get_logger(name) for name in _LOGGERS}
_THRESHOLDS = {name: levels().threshold(name) for name in _LOGGERS}

MAX_LOGGED = 20
"""Maximum number of decisions of one effect that get a line each."""

MAX_NAMED = 10
"""Maximum number of allocations named in one line."""

_RELEASED = {
    TerminationType.TIMEOUT: "timed_out",
    TerminationType.PREEMPTED_BY_SCHEDULER: "preempted",
    TerminationType.PLACEHOLDER_REPLACED: "replaced",
}


def _is_enabled(name: str) -> bool:
    """True if the logger writes lines of `debug`."""
    return _THRESHOLDS[name].debugs


def is_on() -> bool:
    """True if any of these loggers writes lines of `debug`."""
    return any(map(_is_enabled, _LOGGERS))


def _size_of(command: Any) -> dict[str, Any]:
    """Numbers of a command's items, by kind; empty for a command without items."""
    match command:
        case UpdateAllocations():
            counts = {"asks": len(command.asks), "releases": len(command.releases)}
        case UpdateApplications():
            counts = {"applications": len(command.new), "removals": len(command.remove)}
        case UpdateNodes():
            counts = {"nodes": len(command.nodes)}
        case EndReplay():
            counts = {
                "nodes": command.nodes,
                "applications": command.applications,
                "allocations": command.allocations,
            }
        case SetHold():
            return {"hold": command.hold.value, "on": command.on}
        case _:
            return {}
    return {name: count for name, count in counts.items() if count}


def _summary(effects: Sequence[Effect]) -> dict[str, int]:
    """Counts of effects by kind, without zeros."""
    counts: Counter[str] = Counter()
    for effect in effects:
        match effect:
            case AllocationsMade():
                counts["allocated"] += len(effect.allocations)
            case AllocationsReleased():
                for release in effect.releases:
                    counts[_RELEASED.get(release.termination, "released")] += 1
            case AllocationsRejected():
                counts["rejected"] += len(effect.rejections)
            case NodesAnswered() | ApplicationsAnswered():
                counts["accepted"] += len(effect.accepted)
                counts["rejected"] += len(effect.rejected)
            case ApplicationsUpdated():
                counts["state_changes"] += len(effect.updates)
            case PredicatesAsked():
                counts["checks_asked"] += len(effect.checks)
            case PreemptionsAsked():
                counts["victim_checks_asked"] += len(effect.checks)
            case ExtensionEffect():
                told = telling_of(effect)
                counts.update({} if told is None else told.counts(effect))
            case RegistrationFailed() | ConfigurationRefused() | OperatorRefused():
                counts["refused"] += 1
            case _:
                pass
    return {name: count for name, count in counts.items() if count}


def _log_acts(effects: Sequence[Effect]) -> None:
    """Log checks sent to the RM, victims, and placeholders to release."""
    for effect in effects:
        match effect:
            case PredicatesAsked() if _is_enabled(PREDICATES):
                nodes = sum(len(check.nodes) for check in effect.checks)
                _log_questions("predicates asked", effect, nodes)
            case PreemptionsAsked() if _is_enabled(PREDICATES):
                nodes = sum(len(check.nodes) for check in effect.checks)
                _log_questions("victims asked about", effect, nodes)
            case AllocationsReleased():
                _log_releases(effect.rm_id, effect.partition, effect.releases)
            case ApplicationsUpdated() if _is_enabled(GANGS):
                for update in effect.updates[:MAX_LOGGED]:
                    if update.is_gang_timeout:
                        about = {"application": update.app_id, "state": update.state}
                        _LOGS[GANGS].debug("gang timed out", rm_id=effect.rm_id, **about)
            case _:
                pass


def _log_questions(event: str, effect: PredicatesAsked | PreemptionsAsked, nodes: int) -> None:
    about = {"partition": effect.partition, "checks": len(effect.checks), "nodes": nodes}
    _LOGS[PREDICATES].debug(event, rm_id=effect.rm_id, **about, deadline=effect.deadline)


def _log_releases(rm_id: RmId, partition: PartitionName, releases: Sequence[Release]) -> None:
    """Log releases by reason: each reason is one decision, for one or more allocations."""
    together: dict[tuple[TerminationType, str, str], list[Release]] = {}
    for release in releases:
        kind = release.termination
        if kind is TerminationType.PREEMPTED_BY_SCHEDULER:
            if _is_enabled(PREEMPTION):
                together.setdefault((kind, "", release.message), []).append(release)
        elif kind in _RELEASED and _is_enabled(GANGS):
            message = release.message if kind is TerminationType.TIMEOUT else ""
            together.setdefault((kind, release.app_id, message), []).append(release)
    for (termination, app_id, message), those in list(together.items())[:MAX_LOGGED]:
        about = {"rm_id": rm_id, "partition": partition}
        keys = [release.key for release in those[:MAX_NAMED]]
        if termination is TerminationType.PREEMPTED_BY_SCHEDULER:
            apps = sorted({release.app_id for release in those})[:MAX_NAMED]
            more = {"reason": message, "applications": apps}
            _LOGS[PREEMPTION].debug("victims stopped", **about, number=len(those), keys=keys, **more)
        elif termination is TerminationType.TIMEOUT:
            more = {"application": app_id, "reason": message}
            _LOGS[GANGS].debug("placeholders stopped", **about, **more, number=len(those), keys=keys)
        else:
            replaced = {"application": app_id, "number": len(those)}
            _LOGS[GANGS].debug("placeholders replaced", **about, **replaced, keys=keys)


WAITING_SECONDS = 1.0
"""Minimum seconds between two counts of a partition's waiting asks."""

MAX_COUNTED = 2_000
"""Maximum number of applications and ask groups that are read for such a count."""

Counts = dict[str, Any]


class SchedulerLog:
    """Writes the lines of one server; after each change of levels a new object is made."""

    seen: dict[RmId, "_Seen"]
    """The last logged state of each registered RM."""

    def __init__(self, views: Views, now: Callable[[], float]) -> None:
        """Start without logged states; `now` returns unix seconds."""
        self._views = views
        self._now = now
        self.seen = {}

    def saw(
        self, command: Command | None, effects: Sequence[Effect], seconds: float, turn: Turn | None
    ) -> None:
        """Log a command or a tick, its duration in seconds, and its effects (`Witness`)."""
        if command is None:
            return
        if isinstance(command, Tick):
            self._log_tick(turn, effects, seconds)
        elif not isinstance(command, OfNoRm):
            self._log_command(command, effects, seconds)
            self._drop_removed(command, effects)
        _log_acts(effects)

    def _log_command(self, command: Any, effects: Sequence[Effect], seconds: float) -> None:
        rm_id = command.rm_id
        about = {**_summary(effects), "ms": _ms(seconds)}
        match command:
            case NotePredicatesSent():
                pass
            case AnswerPredicates():
                if _is_enabled(PREDICATES) and not _is_unknown(effects):
                    counts = self._answers(command)
                    _LOGS[PREDICATES].debug("predicates answered", rm_id=rm_id, **counts, **about)
            case AnswerPreemptions():
                if _is_enabled(PREDICATES):
                    answers = len(command.answers)
                    _LOGS[PREDICATES].debug("victims answered", rm_id=rm_id, answers=answers, **about)
            case RegisterRm() | UpdateConfiguration():
                if _is_enabled(CONFIGURATIONS):
                    what = "registration" if isinstance(command, RegisterRm) else "configuration"
                    last = _is_over(effects)
                    _LOGS[CONFIGURATIONS].debug(f"{what} step", rm_id=rm_id, last=last, **about)
            case _:
                if _is_enabled(COMMANDS):
                    name = type(command).__name__
                    size = _size_of(command)
                    _LOGS[COMMANDS].debug("command", rm_id=rm_id, command=name, **size, **about)

    def _drop_removed(self, command: Command, effects: Sequence[Effect]) -> None:
        """Drop the state of removed RMs and partitions, and of RMs whose books were dropped."""
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
        """Counts of an RM's answers; late answers are counted since the last line."""
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

    def _log_tick(self, turn: Turn | None, effects: Sequence[Effect], seconds: float) -> None:
        """Log the turn, and the effects of deadlines for other RMs."""
        by_rm: dict[RmId, list[Effect]] = {}
        for effect in effects:
            by_rm.setdefault(effect.rm_id, []).append(effect)
        if turn is not None and (_is_enabled(TURNS) or _is_enabled(PREDICATES)):
            self._log_turn(turn.partition, by_rm.pop(turn.rm_id, []), seconds)
        if _is_enabled(TURNS):
            for rm_id, those in by_rm.items():
                if counts := _summary(those):
                    _LOGS[TURNS].debug("deadlines", rm_id=rm_id, **counts)

    def _log_turn(self, partition: PartitionName, effects: Sequence[Effect], seconds: float) -> None:
        rm_id = rm_of(partition)
        try:
            counters = self._views.counters(partition)
        except NotFound:  # the last effect has removed the partition
            counts = _summary(effects)
        else:
            partitions = self.seen.setdefault(rm_id, _Seen()).partitions
            seen = partitions.setdefault(partition, _SeenPartition())
            overdue = seen.overdue(counters)
            if overdue and _is_enabled(PREDICATES):
                about = {"partition": partition, "checks": overdue}
                _LOGS[PREDICATES].debug("predicates overdue", rm_id=rm_id, **about)
            counts = {**seen.turn(counters), **_summary(effects)}
            if counts and _is_enabled(TURNS):
                counts |= self._waiting_asks(partition, seen)
        if counts and _is_enabled(TURNS):
            _LOGS[TURNS].debug("turn", rm_id=rm_id, partition=partition, **counts, ms=_ms(seconds))

    def _waiting_asks(self, partition: PartitionName, seen: "_SeenPartition") -> Counts:
        """Waiting asks by reason, at intervals; `waiting_more` if not all were read."""
        now = self._now()
        if now < seen.waiting + WAITING_SECONDS:
            return {}
        seen.waiting = now
        waiting, is_all = self._views.waiting(partition, MAX_COUNTED)
        counts: Counts = {"waiting": waiting} if waiting else {}
        return counts if is_all else {**counts, "waiting_more": True}


class _SeenPartition:
    """Counters of a partition at its last logged turn."""

    def __init__(self) -> None:
        """Start without a turn."""
        self._counted: tuple[int, int, int] | None = None
        self._overdue: int | None = None
        self.waiting = 0.0
        """Time of the last count of waiting asks, in unix seconds."""

    def turn(self, counters: Counters) -> Counts:
        """Tries and reservations of the turn; empty if there are none, or for the first logged turn.

        The first turn has no earlier counters to compare with.
        """
        before = self._counted
        tried, reserved, turns = self._counted = (
            counters.asks_tried,
            counters.reservations_made,
            counters.turns,
        )
        if before is None or turns != before[2] + 1:
            return {}
        counts = {"tried": tried - before[0], "reserved": reserved - before[1]}
        return {name: count for name, count in counts.items() if count}

    def overdue(self, counters: Counters) -> int:
        """Number of checks, since the last line, that the RM did not answer in time."""
        before, self._overdue = self._overdue, counters.checks_overdue
        return 0 if before is None else self._overdue - before


class _Seen:
    """The last logged state of an RM."""

    def __init__(self) -> None:
        """Start without state."""
        self.late: int | None = None
        """Number of the RM's late answers; None before the first line."""
        self.partitions: dict[PartitionName, _SeenPartition] = {}


def _is_over(effects: Sequence[Effect]) -> bool:
    """True if a command that is carried out in steps has ended."""
    return not (effects and isinstance(effects[-1], Unfinished))


def _is_unknown(effects: Sequence[Effect]) -> bool:
    """True if a command was for an RM that is not registered."""
    return any(isinstance(effect, NotRegistered) for effect in effects[:1])


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
