"""Details of commands and effects for the log: their sizes and decisions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import structlog

from licorne_core.handlers.gangs import RESERVATION_TIMEOUT
from licorne_core.messages.commands import (
    EndReplay,
    SetHold,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    ConfigurationRefused,
    ContainerStatesChanged,
    Effect,
    NodesAnswered,
    OperatorRefused,
    PredicatesAsked,
    PreemptionsAsked,
    RegistrationFailed,
    Release,
)
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.logs.levels import GANGS, PREDICATES, PREEMPTION

_gangs = structlog.get_logger(GANGS)
_predicates = structlog.get_logger(PREDICATES)
_preemption = structlog.get_logger(PREEMPTION)

MOST_TOLD = 20
"""Decisions of one effect that have a line each."""

MOST_NAMED = 10
"""Allocations that one line names, at most."""

_RELEASED = {
    TerminationType.TIMEOUT: "timed_out",
    TerminationType.PREEMPTED_BY_SCHEDULER: "preempted",
    TerminationType.PLACEHOLDER_REPLACED: "replaced",
}
_on_gangs, _on_predicates, _on_preemption = (
    levels().threshold(name) for name in (GANGS, PREDICATES, PREEMPTION)
)


def acts_told() -> bool:
    """True if any logger of decisions is on."""
    return _on_gangs.debugs or _on_predicates.debugs or _on_preemption.debugs


def size_of(command: Any) -> dict[str, Any]:
    """Sizes of a command's items, by kind; empty for a command without items."""
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


def summary(effects: Sequence[Effect]) -> dict[str, int]:
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
            case ContainerStatesChanged():
                counts["container_states"] += len(effect.states)
            case RegistrationFailed() | ConfigurationRefused() | OperatorRefused():
                counts["refused"] += 1
            case _:
                pass
    return {name: count for name, count in counts.items() if count}


def tell_acts(effects: Sequence[Effect]) -> None:
    """Log questions to the RM, victims, and placeholders that have to go."""
    for effect in effects:
        match effect:
            case PredicatesAsked() if _on_predicates.debugs:
                nodes = sum(len(check.nodes) for check in effect.checks)
                _tell_questions("predicates asked", effect, nodes)
            case PreemptionsAsked() if _on_predicates.debugs:
                nodes = sum(len(check.nodes) for check in effect.checks)
                _tell_questions("victims asked about", effect, nodes)
            case AllocationsReleased():
                _tell_releases(effect.rm_id, effect.partition, effect.releases)
            case ApplicationsUpdated() if _on_gangs.debugs:
                for update in effect.updates[:MOST_TOLD]:
                    if update.message == RESERVATION_TIMEOUT:
                        about = {"application": update.app_id, "state": update.state}
                        _gangs.debug("gang timed out", rm_id=effect.rm_id, **about)
            case _:
                pass


def _tell_questions(event: str, effect: PredicatesAsked | PreemptionsAsked, nodes: int) -> None:
    about = {"partition": effect.partition, "checks": len(effect.checks), "nodes": nodes}
    _predicates.debug(event, rm_id=effect.rm_id, **about, deadline=effect.deadline)


def _tell_releases(rm_id: RmId, partition: PartitionName, releases: Sequence[Release]) -> None:
    """Log releases by their reason: each is a decision, and may concern many allocations."""
    together: dict[tuple[TerminationType, str, str], list[Release]] = {}
    for release in releases:
        kind = release.termination
        if kind is TerminationType.PREEMPTED_BY_SCHEDULER:
            if _on_preemption.debugs:
                together.setdefault((kind, "", release.message), []).append(release)
        elif kind in _RELEASED and _on_gangs.debugs:
            message = release.message if kind is TerminationType.TIMEOUT else ""
            together.setdefault((kind, release.app_id, message), []).append(release)
    for (termination, app_id, message), those in list(together.items())[:MOST_TOLD]:
        about = {"rm_id": rm_id, "partition": partition}
        keys = [release.key for release in those[:MOST_NAMED]]
        if termination is TerminationType.PREEMPTED_BY_SCHEDULER:
            apps = sorted({release.app_id for release in those})[:MOST_NAMED]
            more = {"reason": message, "applications": apps}
            _preemption.debug("victims stopped", **about, number=len(those), keys=keys, **more)
        elif termination is TerminationType.TIMEOUT:
            more = {"application": app_id, "reason": message}
            _gangs.debug("placeholders stopped", **about, **more, number=len(those), keys=keys)
        else:
            replaced = {"application": app_id, "number": len(those)}
            _gangs.debug("placeholders replaced", **about, **replaced, keys=keys)
