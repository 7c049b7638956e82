"""The one door of the core (DESIGN § 2).

`Scheduler.handle` is the only way to change anything; the same commands at the same times give the
same effects. Nothing in here reads a clock or talks to anybody: time is an argument, and
`next_deadline` says when the core wants to be called again.
"""

from collections import deque
from typing import assert_never

from licorne_core.commands import (
    AnswerPredicates,
    BeginReplay,
    Command,
    EndReplay,
    Hold,
    RegisterRm,
    RemoveRm,
    SetHold,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.effects import Effect, Happened, NotRegistered, TickFailed
from licorne_core.handlers.allocations import update_allocations
from licorne_core.handlers.apps import update_applications
from licorne_core.handlers.configuration import register, update_configuration
from licorne_core.handlers.nodes import update_nodes
from licorne_core.handlers.predicates import answer_predicates
from licorne_core.handlers.replay import begin_replay, count_replayed, end_replay
from licorne_core.handlers.turn import decide, fire_timers
from licorne_core.ids import PartitionName
from licorne_core.options import Options
from licorne_core.partition import Partition
from licorne_core.registry import Registry, Rm
from licorne_core.tuning import Tuning
from licorne_core.views import Views

_REQUEST_NAMES = {
    UpdateNodes: "NodeRequest",
    UpdateApplications: "ApplicationRequest",
    UpdateAllocations: "AllocationRequest",
}

_OfRm = (
    UpdateAllocations
    | UpdateApplications
    | UpdateNodes
    | UpdateConfiguration
    | AnswerPredicates
    | BeginReplay
    | EndReplay
    | SetHold
    | RemoveRm
)

AT_ONCE = 0.0
"""A deadline that has always passed: work is waiting."""


class Scheduler:
    """A deterministic state machine: commands and times in, effects out."""

    def __init__(
        self,
        *,
        default_config: str = "",
        reservations: bool = True,
        tuning: Tuning | None = None,
    ) -> None:
        """`default_config` is for RMs that register without one; empty for the built-in default.

        Without `reservations` no node is ever kept free for an ask (spec § 2.8).
        """
        self._options = Options(
            default_config=default_config,
            reservations=reservations,
            tuning=tuning or Tuning(),
        )
        self._registry = Registry()
        self._turns: deque[PartitionName] = deque()
        self.views = Views(self._registry)

    @property
    def partitions(self) -> dict[PartitionName, Partition]:
        """All partitions by normalized name."""
        return self._registry.partitions

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Carry out one command at a time given in unix seconds; what came of it, in order.

        Raises:
            TickFailed: a defect of the core, met in the partition of one RM.
        """
        try:
            effects = self._carry_out(command, now)
        except TickFailed as failure:
            self._add_facts(failure.effects)
            raise
        self._add_facts(effects)
        return effects

    def _add_facts(self, effects: list[Effect]) -> None:
        for rm in self._registry.rms.values():
            facts = rm.journal.take()
            if facts:
                effects.append(Happened(rm_id=rm.rm_id, facts=facts))

    def _carry_out(self, command: Command, now: float) -> list[Effect]:
        if isinstance(command, Tick):
            return self._tick(command, now)
        if isinstance(command, RegisterRm):
            return register(self._registry, command, self._options, now)
        rm = self._registry.rms.get(command.rm_id)
        if rm is None:
            return [NotRegistered(rm_id=command.rm_id, reason=_not_registered(command))]
        count_replayed(rm, command)
        return self._handle_for(rm, command, now)

    def next_deadline(self) -> float | None:
        """When to handle a Tick next, in unix seconds; a time that has passed means now."""
        deadlines = []
        for partition in self.partitions.values():
            if _is_broken(partition):
                continue
            if partition.is_runnable:
                return AT_ONCE
            deadline = partition.timers.next_deadline()
            if deadline is not None:
                deadlines.append(deadline)
        return min(deadlines, default=None)

    def _handle_for(self, rm: Rm, command: _OfRm, now: float) -> list[Effect]:
        match command:
            case UpdateAllocations():
                return update_allocations(rm, command, now)
            case UpdateApplications():
                return update_applications(rm, command, now)
            case UpdateNodes():
                return update_nodes(rm, command, now)
            case UpdateConfiguration():
                return update_configuration(self._registry, rm, command, self._options, now)
            case AnswerPredicates():
                return answer_predicates(rm, command, now)
            case BeginReplay():
                return begin_replay(rm, command)
            case EndReplay():
                return end_replay(rm, command)
            case SetHold():
                rm.set_hold(command.hold, on=command.on)
                return []
            case RemoveRm():
                self._registry.remove(rm.rm_id)
                return []
            case _:
                assert_never(command)

    def _tick(self, command: Tick, now: float) -> list[Effect]:
        """Fire what is due everywhere, then give one partition its turn, round robin."""
        effects: list[Effect] = []
        for partition in self.partitions.values():
            if _is_broken(partition):
                continue
            try:
                effects += fire_timers(partition, now)
            except Exception as error:
                raise TickFailed(partition.rm_id, effects) from error
        waiting = [name for name, partition in self.partitions.items() if partition.is_runnable]
        if waiting:
            partition = self.partitions[self._next_turn(waiting)]
            try:
                effects += decide(partition, command.decisions, now)
            except Exception as error:
                raise TickFailed(partition.rm_id, effects) from error
        return effects

    def _next_turn(self, waiting: list[PartitionName]) -> PartitionName:
        """The one of those waiting whose last turn is longest ago; who never had one goes first."""
        turns = self._turns
        chosen = next((name for name in waiting if name not in turns), None)
        if chosen is None:
            chosen = next(name for name in turns if name in waiting)
            turns.remove(chosen)
        turns.append(chosen)
        while len(turns) > len(self.partitions):
            gone = next(name for name in turns if name not in self.partitions)
            turns.remove(gone)
        return chosen


def _is_broken(partition: Partition) -> bool:
    """Whether the core has failed on its RM, which has to register anew."""
    return Hold.DEFECT in partition.holds


def _not_registered(command: Command) -> str:
    """The text that callers know (spec §§ 1.6.1, 1.6.2)."""
    assert not isinstance(command, Tick)
    name = _REQUEST_NAMES.get(type(command))
    if name is not None:
        return f'received {name}, but RmID="{command.rm_id}" not registered'
    return f"RM {command.rm_id} has no active partitions, make sure it is registered"
