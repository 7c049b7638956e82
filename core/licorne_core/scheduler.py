"""The only interface that changes the core (DESIGN § 2).

`Scheduler.handle` is the only way to change anything; the same commands at the same times give the same
effects. Nothing in the core reads a clock or does I/O: time is an argument, and `next_deadline` is the time
of the next call that the core needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from licorne_core.config import SubmittedConfig
from licorne_core.config.schema import Configuration
from licorne_core.features import kinds, modules, table
from licorne_core.handlers import allocations, apps, configuration, nodes, replay
from licorne_core.handlers.configuration import refusal_of, register
from licorne_core.handlers.operators import CommandRefused
from licorne_core.handlers.outcome import Commands
from licorne_core.handlers.replay import count_replayed
from licorne_core.handlers.turn import decide, fire_timers
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    AskBackoff,
    Command,
    ExtensionAnswer,
    ExtensionCommand,
    Hold,
    NewApplication,
    NotePredicatesSent,
    OfNoRm,
    OfRm,
    Options,
    RefuseNewWork,
    RegisterRm,
    SharedCommand,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    ConfigurationRefused,
    Effect,
    Happened,
    NotRegistered,
    OperatorRefused,
    TickFailed,
    Unfinished,
)
from licorne_core.messages.plans import (
    ConfigurationPlan,
    ConfigurationPlanRefused,
    Spent,
    StartChange,
    StartTrial,
    SubmissionPlan,
    WaitingAskName,
)
from licorne_core.messages.reports import Turn
from licorne_core.model.rm_context import RmContext
from licorne_core.partitions.agenda import AT_ONCE
from licorne_core.partitions.jobs import Slice
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.asks import Ask
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.values.rm_caps import RmCaps
from licorne_core.values.slices import Tuning
from licorne_core.views import Views
from licorne_core.views.audit.rules import check_holdings
from licorne_core.whatif import lacks, plan_configuration, plan_submission, search_start, try_start

_REQUEST_NAMES = {
    UpdateNodes: "NodeRequest",
    UpdateApplications: "ApplicationRequest",
    UpdateAllocations: "AllocationRequest",
}

_COMMANDS: Final[Commands] = {
    **allocations.COMMANDS,
    **apps.COMMANDS,
    **configuration.COMMANDS,
    **nodes.COMMANDS,
    **replay.COMMANDS,
    **table("handlers", "COMMANDS"),
}

_SHARED_COMMANDS: Final = {
    kind: (name, carry_out) for name, each in modules("shared") for kind, carry_out in each.COMMANDS.items()
}
"""Commands without an RM, each with its extension and the function that carries it out."""

_OF_ITEMS = (
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
    AnswerPredicates,
    AnswerPreemptions,
    ExtensionAnswer,
    NotePredicatesSent,
)
"""Commands whose items name their partitions. Other commands may change all partitions of their RM."""


MOST_TIMERS = 64
"""Maximum number of deadlines of one RM that are handled in one tick."""

_SLICED = (UpdateAllocations, UpdateApplications, UpdateNodes, UpdateConfiguration, ExtensionCommand)
"""Commands that may leave a remainder (`Unfinished`)."""


class Scheduler:
    """A deterministic state machine: commands and times in, effects out."""

    def __init__(
        self,
        *,
        default_config: Configuration | None = None,
        reservations: bool = True,
        ask_backoff: AskBackoff | None = None,
        tuning: Tuning | None = None,
        rm_caps: RmCaps | None = None,
    ) -> None:
        """Create an empty core.

        `default_config` is for RMs that register without one; None is the built-in one.

        Without `reservations` no node is ever reserved for an ask (spec § 2.8). `ask_backoff` is the back-off
        of an ask that its RM could not run, `rm_caps` the caps of each RM.
        """
        self.options = Options(
            default_config=default_config,
            reservations=reservations,
            ask_backoff=ask_backoff or AskBackoff(),
            tuning=tuning or Tuning(),
            rm_caps=rm_caps or RmCaps(),
        )
        """Options that apply to all RMs."""
        self._registry = Registry(
            self.options, kinds(), [(name, each.SHARED) for name, each in modules("shared")]
        )
        self.last_turn: Turn | None = None
        """The turn that the last tick gave; None if it gave none."""
        self.views = Views(self._registry, self.options.rm_caps)

    @property
    def partitions(self) -> dict[PartitionName, Partition]:
        """All partitions by normalized name, for the core and its tests; readers have `views`."""
        return self._registry.partitions

    @property
    def waiting(self) -> int:
        """Number of RMs with a partition that waits for a turn."""
        return self._registry.agenda.waiting

    def refusal_of(self, rm_id: RmId, config: SubmittedConfig) -> ConfigurationRefused | None:
        """Check an update of the RM with the configuration; return the refusal, or None if it is accepted.

        Nothing is changed. An RM that is not registered has the same caps as all others.
        """
        return refusal_of(rm_id, self._registry.rms.get(rm_id), config, self.options)

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Execute one command at `now`, in unix seconds; return its effects in order.

        Raises:
            TickFailed: a defect of the core has affected the partition of one RM.
            ConfigError, NotFound: a command without an RM is refused, and has changed nothing.
        """
        try:
            if isinstance(command, Tick):
                return self._tick(command, now)
            if isinstance(command, OfNoRm):
                self._carry_out_for_all(command, now)
                return []
            effects = self._carry_out(command, now)
            rm = self._registry.rms.get(command.rm_id)
            if rm is not None:
                _add_facts(effects, rm.rm_id, rm.context)
            return effects
        finally:
            if self._registry.core.busy:
                self._after_command()

    def _carry_out_for_all(self, command: RefuseNewWork | SharedCommand, now: float) -> None:
        registry = self._registry
        if isinstance(command, RefuseNewWork):
            held = [rm.holdings.memory for rm in registry.rms.values()]
            registry.pressure.set(command.shortage, command.reason, held)
        else:
            name, carry_out = _SHARED_COMMANDS[type(command)]
            carry_out(registry.core.shared[name], registry, command, now)

    def _after_command(self) -> None:
        for name in tuple(self._registry.core.busy):
            self._registry.core.shared[name].after_command(self._registry)

    def next_deadline(self) -> float | None:
        """Time of the next Tick, in unix seconds; in the past if it is due now, None without work."""
        if self._registry.disposal.gone or self._registry.core.busy:
            return AT_ONCE
        return self._registry.agenda.next_deadline()

    def plan_configuration(
        self, command: UpdateConfiguration, now: float, spent: Spent = lambda: 0.0
    ) -> ConfigurationPlan | ConfigurationPlanRefused:
        """Plan an update of a registered RM at `now`. The scheduler must be a copy, as the plan changes it.

        A plan is incomplete if its budget was spent.
        """
        return plan_configuration(self, command, now, spent)

    def plan_submission(
        self, rm_id: RmId, new: NewApplication, asks: Sequence[Ask], now: float, spent: Spent = lambda: 0.0
    ) -> SubmissionPlan:
        """Plan a submission of a registered RM at `now`, on a copy; the keys of its asks must differ."""
        return plan_submission(self, rm_id, new, asks, now, spent)

    def plan_start(
        self,
        name: WaitingAskName,
        now: float,
        spent: Spent = lambda: 0.0,
        *,
        changes: Sequence[StartChange] | None = None,
        adds_node: bool = False,
        alone: bool = False,
    ) -> StartTrial:
        """Try whether a waiting ask starts immediately after these changes.

        If `changes` is None, suitable changes are searched; with `adds_node` they add a node, else they free
        one. With `alone` no other ask waits. The scheduler must be a copy, a separate one for each trial.
        Raises NotFound if no such ask is pending.
        """
        if changes is None:
            return search_start(self, name, now, spent, adds_node=adds_node, alone=alone)
        return try_start(self, name, changes, now, spent)

    def start_lacks(self, name: WaitingAskName) -> Iterator[StartTrial | None]:
        """Missing amounts in the checks of a waiting ask; nothing is tried. A None marks each possible pause.

        Raises NotFound at the first step if no such ask is pending.
        """
        rm = self._registry.rms.get(name.rm_id)
        return lacks(() if rm is None else rm.partitions.values(), name)

    def check(self) -> None:
        """Recompute the agenda, holdings of RMs, and state shared by extensions; raises InvariantBroken."""
        self._registry.agenda.check(self.partitions)
        for rm in self._registry.rms.values():
            check_holdings(rm)
        for shared in self._registry.core.shared.values():
            shared.check(self._registry)

    def _carry_out(self, command: OfRm, now: float) -> list[Effect]:
        if isinstance(command, RegisterRm):
            effects = register(self._registry, command, now)
            former = self._registry.rms.get(command.rm_id)
            if former is not None:
                self._hold_for_rest(former, effects)
            return effects
        rm = self._registry.rms.get(command.rm_id)
        if rm is None:
            return [NotRegistered(rm_id=command.rm_id, reason=_not_registered(command))]
        if rm.replay is not None and Hold.UNFINISHED not in rm.holds:
            # The first step of a command has counted its remainder too.
            count_replayed(rm.replay, command)
        changed: Iterable[Partition] = rm.reached
        if not isinstance(command, _OF_ITEMS) or (rm.holds and Hold.UNFINISHED in rm.holds):
            # Even a remainder may change partitions that only the command's first step has looked up.
            changed = rm.partitions.values()
        try:
            effects = self._handle_for(rm, command, now)
            for partition in changed:
                if partition.usage.touched:
                    partition.settle(now)
                partition.dirty.open_blockers()
            if (effects or rm.holds) and isinstance(command, _SLICED):
                self._hold_for_rest(rm, effects)
            return effects
        finally:
            for partition in changed:
                self._registry.agenda.note(partition)
            rm.reached.clear()

    def _hold_for_rest(self, rm: Rm, effects: list[Effect]) -> None:
        """Hold the RM's scheduling as long as a command of it has a remainder."""
        unfinished = bool(effects) and isinstance(effects[-1], Unfinished)
        if unfinished != (Hold.UNFINISHED in rm.holds):
            rm.set_hold(Hold.UNFINISHED, on=unfinished)
            for partition in rm.partitions.values():
                self._registry.agenda.note(partition)

    def _handle_for(self, rm: Rm, command: OfRm, now: float) -> list[Effect]:
        try:
            return _COMMANDS[type(command)](self._registry, rm, command, now)
        except CommandRefused as refused:
            return [OperatorRefused(rm_id=rm.rm_id, refusal=refused.refusal, reason=str(refused))]

    def _tick(self, command: Tick, now: float) -> list[Effect]:
        """Fire due timers in all partitions, then give one partition its turn, round robin."""
        effects: list[Effect] = []
        worked: list[Partition] = []
        try:
            self._fire_due(now, effects, worked)
            if self._registry.core.busy:
                # Resources freed by a deadline are used in the same turn.
                self._after_command()
            self._give_turn(command.decisions, now, effects, worked)
            if self._registry.disposal.gone:
                self._registry.disposal.take_apart()
            for name in tuple(self._registry.core.busy):
                self._registry.core.shared[name].after_turn(self._registry, now)
        finally:
            for partition in worked:
                _add_facts(effects, partition.rm_id, partition.rm)
        return effects

    def _fire_due(self, now: float, effects: list[Effect], worked: list[Partition]) -> None:
        """Fire due timers, in the order in which partitions were registered.

        Each RM gets one slice; the rest of its work waits until other RMs have had their slices.
        """
        agenda = self._registry.agenda
        due = agenda.due(now)
        worked += due
        slices: dict[RmId, Slice] = {}
        try:
            for partition in due:
                slice_ = slices.setdefault(partition.rm_id, Slice(MOST_TIMERS))
                try:
                    effects += fire_timers(partition, now, slice_)
                except Exception as error:
                    raise TickFailed(partition.rm_id, effects) from error
        finally:
            for partition in due:
                agenda.note(partition)

    def _give_turn(self, decisions: int, now: float, effects: list[Effect], worked: list[Partition]) -> None:
        """Decide for the partition whose turn is next (`Agenda.take_turn`); nothing if no partition waits."""
        agenda = self._registry.agenda
        partition = agenda.take_turn()
        self.last_turn = None if partition is None else partition.turn
        if partition is None:
            return
        worked.append(partition)
        try:
            effects += decide(partition, decisions, now)
        except Exception as error:
            raise TickFailed(partition.rm_id, effects) from error
        finally:
            agenda.note(partition)


def _add_facts(effects: list[Effect], rm_id: RmId, rm: RmContext) -> None:
    """Append effects of extensions and `Happened`, but keep `Unfinished` last."""
    facts = rm.journal.facts
    moved, rm.holdings.moved = rm.holdings.moved, 0
    if facts or rm.notifications:
        unfinished = bool(effects) and isinstance(effects[-1], Unfinished)
        at = len(effects) - unfinished
        if facts:
            rm.journal.facts = []
            effects.insert(at, Happened(rm_id=rm_id, facts=facts, footprint=moved))
        effects[at:at] = rm.notifications
        rm.notifications.clear()


def _not_registered(command: OfRm) -> str:
    """The refusal, in the words of the older core (spec §§ 1.6.1, 1.6.2)."""
    name = _REQUEST_NAMES.get(type(command))
    if name is not None:
        return f'received {name}, but RmID="{command.rm_id}" not registered'
    return f"RM {command.rm_id} has no active partitions, make sure it is registered"
