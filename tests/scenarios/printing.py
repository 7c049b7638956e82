"""The lines that a scenario prints for effects and amounts."""

from collections.abc import Callable
from typing import Any, assert_never

from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    ExtensionEffect,
    Happened,
    NodesAnswered,
    NotRegistered,
    OperatorRefused,
    PredicatesAsked,
    PreemptionsAsked,
    Registered,
    RegistrationFailed,
    ReplayEnded,
    Unfinished,
)
from licorne_core.values.resources import Resources


def amounts(size: Resources) -> str:
    """Amounts as ``memory=8 vcore=4000``, without zeros; a dash if there are none."""
    return " ".join(f"{name}={value}" for name, value in sorted(size.items()) if value) or "-"


def maximum(size: Resources) -> str:
    """Amounts of a maximum, with zeros, because a zero forbids its type; a dash if there are none."""
    return " ".join(f"{name}={value}" for name, value in sorted(size.items())) or "-"


def told(effect: Effect) -> list[str]:
    """The lines printed for one effect, in order."""
    match effect:
        case AllocationsMade():
            return [f"placed {a.ask.app_id}/{a.key} on {a.node_id}" for a in effect.allocations]
        case AllocationsReleased():
            return [
                f"released {r.app_id}/{r.key}, {r.termination.name}: {r.message}" for r in effect.releases
            ]
        case AllocationsRejected():
            return [f"refused {r.app_id}/{r.key}: {r.reason}" for r in effect.rejections]
        case ApplicationsUpdated():
            return [f"{u.app_id} is {u.state}, {u.message}" for u in effect.updates]
        case ApplicationsAnswered():
            return [
                *(f"accepted {app_id}" for app_id in effect.accepted),
                *(f"refused {r.app_id}: {r.reason}" for r in effect.rejected),
            ]
        case NodesAnswered():
            return [
                *(f"accepted {node_id}" for node_id in effect.accepted),
                *(f"refused {r.node_id}: {r.reason}" for r in effect.rejected),
            ]
        case PredicatesAsked():
            return [
                f"asked {check.check}: may {check.app_id}/{check.key} "
                f"{'go to' if check.allocate else 'wait for'} {' '.join(check.nodes)}"
                for check in effect.checks
            ]
        case PreemptionsAsked():
            return [
                f"asked {check.check}: for {check.app_id}/{check.key} on {node.node_id} from "
                f"{node.start}: {' '.join(f'{v.app_id}/{v.key}' for v in node.victims)}"
                for check in effect.checks
                for node in check.nodes
            ]
        case ExtensionEffect():
            return _BY_EXTENSIONS[type(effect).__name__](effect)
        case Happened() | Unfinished():
            return []
        case _:
            return [_told_of_rm(effect)]


def _closed(effect: Any) -> str:
    told = "done" if effect.changed else "nothing to do"
    return f"{told}, {effect.allocations} allocations run there"


def _drained(effect: Any) -> str:
    terms = effect.terms
    if terms.deadline is None:
        return f"{terms.allocations} allocations go on until they end, {effect.exempt} stay"
    seconds = terms.deadline - terms.start
    return f"{terms.allocations} allocations are stopped within {seconds:g} s, {effect.exempt} stay"


def _held(effect: Any) -> str:
    told = "done" if effect.changed else "nothing to do"
    return f"{told}, {effect.asks} asks wait, {effect.allocations} allocations go on"


def _changed(effect: Any) -> str:
    told = "done" if effect.changed else "nothing to do"
    return f"{told}, in {effect.queue}, priority {effect.marks.priority}"


_BY_EXTENSIONS: dict[str, Callable[[Any], list[str]]] = {
    "ApplicationStopped": lambda effect: [
        f"{effect.allocations} allocations are stopping, {effect.asks} asks are dropped"
    ],
    "ApplicationHeld": lambda effect: [_held(effect)],
    "ApplicationChanged": lambda effect: [_changed(effect)],
    "MarksEnded": lambda effect: ["marks ended: " + " ".join(app_id for _, app_id in effect.applications)],
    "NodeSchedulableSet": lambda effect: [_closed(effect)],
    "QueueStoppedSet": lambda effect: [f"queue is {effect.state}" + ("" if effect.changed else " already")],
    "NodeDrainBegun": lambda effect: [_drained(effect)],
    "ContainerStatesChanged": lambda effect: [
        f"no node takes {one.app_id}/{one.key}: {one.reason}" for one in effect.states
    ],
    "NoticesGiven": lambda effect: [
        *(
            f"notice for {one.app_id}/{one.key} until {one.deadline:.0f}: for "
            f"{one.beneficiary_app_id}/{one.beneficiary_key} of {one.queue}, {one.lost:g} s lost"
            for one in effect.notices
        ),
        *(f"notice withdrawn for {one.app_id}/{one.key}" for one in effect.withdrawn),
    ],
}
"""Lines of effects of extensions, by class name, because an extension may be missing."""


def _told_of_rm(
    effect: Registered
    | RegistrationFailed
    | ConfigurationUpdated
    | ConfigurationRefused
    | NotRegistered
    | OperatorRefused
    | ReplayEnded,
) -> str:
    match effect:
        case Registered():
            return f"registered {effect.rm_id}, session {effect.session}"
        case RegistrationFailed() | ConfigurationRefused() | NotRegistered():
            return f"refused: {effect.reason}"
        case ConfigurationUpdated():
            return "configuration updated" if effect.changed else "configuration unchanged"
        case OperatorRefused():
            return f"refused: {effect.reason}"
        case ReplayEnded():
            return f"replay wanted again: {effect.missing}" if effect.missing else "replay ended"
        case _:
            assert_never(effect)
