"""Replay: an RM sends its whole state before its asks are scheduled (DESIGN § 3, spec § 11)."""

from typing import Final

from licorne_core.handlers.outcome import Commands
from licorne_core.messages.commands import (
    BeginReplay,
    EndReplay,
    Hold,
    SetHold,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import Effect, ReplayEnded
from licorne_core.partitions.registry import Registry, ReplayCounts, Rm


def _begin(_registry: Registry, rm: Rm, _command: BeginReplay, _now: float) -> list[Effect]:
    """Hold scheduling, and start to count arriving items."""
    rm.replay = ReplayCounts()
    rm.set_hold(Hold.REPLAY, on=True)
    return []


def _end(_registry: Registry, rm: Rm, command: EndReplay, _now: float) -> list[Effect]:
    """Resume scheduling if the replay is complete; otherwise wait for another replay."""
    counts = rm.replay
    if counts is None:
        rm.set_hold(Hold.REPLAY, on=True)
        return [ReplayEnded(rm_id=rm.rm_id, missing="no replay was begun")]
    rm.replay = None
    pairs = {
        "nodes": (command.nodes, counts.nodes),
        "applications": (command.applications, counts.applications),
        "allocations": (command.allocations, counts.allocations),
    }
    missing = ", ".join(
        f"{arrived} of {sent} {what}" for what, (sent, arrived) in pairs.items() if sent != arrived
    )
    if missing:
        return [ReplayEnded(rm_id=rm.rm_id, missing=f"arrived: {missing}")]
    rm.set_hold(Hold.REPLAY, on=False)
    for partition in rm.partitions.values():
        for extension in partition.points.replayed:
            extension.replayed()
    return [ReplayEnded(rm_id=rm.rm_id)]


def _set_hold(_registry: Registry, rm: Rm, command: SetHold, _now: float) -> list[Effect]:
    rm.set_hold(command.hold, on=command.on)
    return []


def count_replayed(counts: ReplayCounts, command: object) -> None:
    """Count items that arrive during a replay."""
    match command:
        case UpdateNodes(nodes=nodes):
            counts.nodes += len(nodes)
        case UpdateApplications(new=new):
            counts.applications += len(new)
        case UpdateAllocations(asks=asks):
            counts.allocations += len(asks)


COMMANDS: Final[Commands] = {BeginReplay: _begin, EndReplay: _end, SetHold: _set_hold}
