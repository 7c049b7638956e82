"""A simple sequential scheduler: the reference for the decisions of the core, and for their order.

It receives the same commands as the core, and shares no other code with it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from licorne_core.extensions.budgets.messages import SetBudgets, SetBudgetSlices
from licorne_core.extensions.drains.messages import DrainNode, SetNodeSchedulable
from licorne_core.extensions.holds.messages import ChangeApplication, HoldApplication
from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    BeginReplay,
    Command,
    EndReplay,
    ExtensionAnswer,
    ExtensionCommand,
    Hold,
    NewApplication,
    NodeUpdate,
    NotePredicatesSent,
    PredicateAnswer,
    PredicatePolicy,
    RefuseNewWork,
    RegisterRm,
    ReleaseRequest,
    RemoveApplication,
    RemoveRm,
    SetHold,
    SharedCommand,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.messages.effects import PredicatesAsked, PreemptionsAsked
from licorne_core.values.asks import Ask
from support.oracle.backfill import mode
from support.oracle.budgets import Budgets
from support.oracle.config import partitions_of, text_of
from support.oracle.cordons import act
from support.oracle.lives import remove
from support.oracle.memory import Memory
from support.oracle.notices import ask_again, look_after, take_word_of_notice
from support.oracle.operators import change, hold
from support.oracle.partition import Made, PartitionOracle, Released
from support.oracle.passing import pass_time, take_answer, take_word_of_victims
from support.oracle.requests import (
    follow_backfill,
    follow_floating,
    follow_quotas,
    release,
    take_ask,
    update_node,
)
from support.oracle.terms import CordonRecord

__all__ = ["Made", "Oracle", "PartitionOracle", "Released"]

AS_FIFO = "stateaware-as-fifo"

Item = NodeUpdate | NewApplication | RemoveApplication | Ask | ReleaseRequest | NoticeAnswer
Act = HoldApplication | ChangeApplication | SetNodeSchedulable | DrainNode


class Oracle:
    """The partitions of all RMs by their full name, ``[rm]name``."""

    def __init__(self, *, reserving: bool, most_assumed: tuple[int, int]) -> None:
        """Start without RMs; see `PartitionOracle` for the options."""
        self.reserving = reserving
        self.most_assumed = most_assumed
        self.partitions: dict[str, PartitionOracle] = {}
        self.cordons: dict[str, dict[str, CordonRecord]] = {}
        self.memories: dict[str, Memory] = {}
        self.budgets = Budgets(self.partitions)
        self.configs: dict[str, str] = {}
        self.as_fifo: dict[str, bool] = {}
        self.holds: dict[str, set[Hold]] = {}
        self.policies: dict[str, PredicatePolicy | None] = {}
        self.replays: dict[str, list[Command]] = {}
        self.waiting: dict[str, list[tuple[str, str]]] = {}

    def runnable(self, name: str) -> bool:
        """True if decisions are made in the partition now."""
        rm_id = name[1:].partition("]")[0]
        return not self.holds[rm_id]

    def handle(
        self,
        command: Command,
        now: float,
        asked: Sequence[PredicatesAsked | PreemptionsAsked] = (),
    ) -> None:
        """Process a command; a Tick only advances time, because decisions are requested separately.

        `asked` are the checks that the core has requested meanwhile. Afterwards `waiting` has, by partition,
        the asks reported to an autoscaler; messages to the RM are recorded in the partitions.
        """
        self.waiting = {}
        for partition in self.partitions.values():
            partition.memory.advance(partition.queues, partition.apps, now)
            partition.made.clear()
            partition.released.clear()
        for effect in asked:
            partition = self.partitions[effect.partition]
            if isinstance(effect, PredicatesAsked):
                partition.checks.said += effect.checks
            else:
                partition.judging.said += effect.checks
        if isinstance(command, Tick):
            for name, partition in self.partitions.items():
                on_hold = not self.runnable(name)
                self.waiting[name] = pass_time(partition, now, on_hold=on_hold)
        elif isinstance(command, RegisterRm):
            kept = self.holds.get(command.rm_id, set()) - {Hold.REPLAY}
            self._forget(command.rm_id)
            self.holds[command.rm_id] = kept
            self.configs[command.rm_id] = text_of(command)
            as_fifo = command.extra_config.get(AS_FIFO) == "true"
            self.as_fifo[command.rm_id] = as_fifo
            self.policies[command.rm_id] = command.predicates
            self._mark(command)
            for name, config in partitions_of(text_of(command)).items():
                self.partitions[f"[{command.rm_id}]{name}"] = self._empty(command.rm_id, name, config)
        elif isinstance(command, SetBudgets | SetBudgetSlices):
            before = self.budgets.floating
            self.budgets.take(command)
            for partition in self.partitions.values():
                follow_floating(partition, before)
                follow_quotas(partition)
        elif not isinstance(command, RefuseNewWork | SharedCommand) and command.rm_id in self.holds:
            self.replays.get(command.rm_id, []).append(command)
            self._update(command, now)
        self._look_after_victims(now)

    def _look_after_victims(self, now: float) -> None:
        for partition in self.partitions.values():
            look_after(partition, now)

    def _mark(self, command: RegisterRm) -> None:
        """Store the operators' cordons in a registration, which also apply to later partitions."""
        for (name, node_id), cordon in command.marks.get("drains", {}).items():
            terms, record = cordon.drain, CordonRecord()
            if terms is not None:
                record = CordonRecord(True, terms.start, terms.deadline, terms.allocations)
            self.cordons.setdefault(name, {})[node_id] = record

    def _forget(self, rm_id: str) -> None:
        self.holds.pop(rm_id, None)
        self.replays.pop(rm_id, None)
        self.configs.pop(rm_id, None)
        self.as_fifo.pop(rm_id, None)
        self.policies.pop(rm_id, None)
        for name in [name for name in self.partitions if name.startswith(f"[{rm_id}]")]:
            del self.partitions[name]
        for known in (self.cordons, self.memories):
            for name in [name for name in known if name.startswith(f"[{rm_id}]")]:
                del known[name]

    def _update(
        self,
        command: UpdateConfiguration
        | RemoveRm
        | UpdateNodes
        | UpdateApplications
        | UpdateAllocations
        | AnswerPredicates
        | AnswerPreemptions
        | ExtensionAnswer
        | NotePredicatesSent
        | BeginReplay
        | EndReplay
        | SetHold
        | HoldApplication
        | ChangeApplication
        | ExtensionCommand,
        now: float,
    ) -> None:
        rm_id = command.rm_id
        match command:
            case UpdateConfiguration():
                self._reconfigure(command, now)
            case RemoveRm():
                self._forget(rm_id)
            case UpdateNodes():
                self._update_nodes(command, now)
            case UpdateApplications():
                self._update_applications(command, now)
            case UpdateAllocations():
                self._update_allocations(command, now)
            case AnswerPredicates() | AnswerPreemptions() | ExtensionAnswer():
                self._answer(command, now)
            case HoldApplication() | ChangeApplication() | SetNodeSchedulable() | DrainNode():
                self._act(command, now)
            case NotePredicatesSent():
                for partition in self._partitions_of(rm_id):
                    partition.note_sent(command.check, now)
            case BeginReplay() | EndReplay() | SetHold():
                self._hold(command)
            case ExtensionCommand():
                raise NotImplementedError("the plain scheduler knows no such operators")
            case _:
                assert_never(command)

    def _act(self, command: Act, now: float) -> None:
        partition = self._of(command.rm_id, command)
        if partition is None:
            return
        match command:
            case HoldApplication():
                hold(partition, command)
            case ChangeApplication():
                change(partition, command, now)
            case SetNodeSchedulable() | DrainNode():
                act(partition, command, now)

    def _hold(self, command: BeginReplay | EndReplay | SetHold) -> None:
        """Stop or resume scheduling for the RM."""
        rm_id = command.rm_id
        match command:
            case BeginReplay():
                self.holds[rm_id].add(Hold.REPLAY)
                self.replays[rm_id] = []
            case EndReplay():
                self._end_replay(command)
            case SetHold():
                (self.holds[rm_id].add if command.on else self.holds[rm_id].discard)(command.hold)

    def _answer(self, command: AnswerPredicates | AnswerPreemptions | ExtensionAnswer, now: float) -> None:
        """Process an answer; a check's number is unique for an RM, so at most one partition has sent it."""
        if isinstance(command, AnswerNotices):
            for word in command.answers:
                partition = self._of(command.rm_id, word)
                if partition is not None:
                    take_word_of_notice(partition, word, now)
            return
        assert not isinstance(command, ExtensionAnswer)
        partitions = self._partitions_of(command.rm_id)
        for answer in command.answers:
            for partition in partitions:
                on_hold = bool(self.holds[command.rm_id])
                if isinstance(answer, PredicateAnswer):
                    refused = {str(one.node_id): one.reason or "refused" for one in answer.refused}
                    take_answer(partition, answer.check, refused, now, on_hold=on_hold)
                else:
                    needed = {str(node_id): upto for node_id, upto in answer.needed.items()}
                    take_word_of_victims(partition, answer.check, needed, now, on_hold=on_hold)

    def _partitions_of(self, rm_id: str) -> list[PartitionOracle]:
        return [p for name, p in self.partitions.items() if name.startswith(f"[{rm_id}]")]

    def _reconfigure(self, command: UpdateConfiguration, now: float) -> None:
        if command.extra_config:
            self._follow(command.rm_id, command.extra_config)
        if text_of(command) != self.configs[command.rm_id]:
            self._reload(command.rm_id, text_of(command), now)

    def _end_replay(self, command: EndReplay) -> None:
        """End the replay, which holds scheduling if items are missing or it was not begun."""
        arrived = self.replays.pop(command.rm_id, None)
        whole = arrived is not None and (
            command.nodes == sum(len(c.nodes) for c in arrived if isinstance(c, UpdateNodes))
            and command.applications == sum(len(c.new) for c in arrived if isinstance(c, UpdateApplications))
            and command.allocations == sum(len(c.asks) for c in arrived if isinstance(c, UpdateAllocations))
        )
        (self.holds[command.rm_id].discard if whole else self.holds[command.rm_id].add)(Hold.REPLAY)

    def _empty(self, rm_id: str, bare: str, config: dict[str, Any]) -> PartitionOracle:
        partition = PartitionOracle(
            rm_id,
            bare,
            config,
            self.budgets,
            as_fifo=self.as_fifo[rm_id],
            reserving=self.reserving,
            policy=self.policies[rm_id],
            most_assumed=self.most_assumed,
        )
        # The marks of a removed partition apply to the next partition of that name.
        partition.cordons = self.cordons.setdefault(f"[{rm_id}]{bare}", {})
        return partition

    def _follow(self, rm_id: str, extra: Mapping[str, str]) -> None:
        self.as_fifo[rm_id] = extra.get(AS_FIFO) == "true"
        for name, partition in self.partitions.items():
            if name.startswith(f"[{rm_id}]"):
                partition.as_fifo = self.as_fifo[rm_id]

    def _reload(self, rm_id: str, text: str, now: float) -> None:
        configs = {f"[{rm_id}]{name}": config for name, config in partitions_of(text).items()}
        if any("resources" in config["queues"][0] for config in configs.values()):
            return
        self.configs[rm_id] = text
        for name in [name for name in self.partitions if name.startswith(f"[{rm_id}]")]:
            if name not in configs:
                self.memories[name] = self.partitions.pop(name).memory
        for name, config in configs.items():
            if name in self.partitions:
                before = mode(self.partitions[name].queues)
                self.partitions[name].reload(config, now)
                follow_backfill(self.partitions[name], before, now)
                ask_again(self.partitions[name], now)
            else:
                partition = self._empty(rm_id, name.partition("]")[2], config)
                # The usage of a removed partition counts in the next partition of that name.
                partition.memory = self.memories.pop(name, partition.memory)
                partition.memory.follow(partition.queues, now)
                self.partitions[name] = partition

    def _of(self, rm_id: str, item: Item | Act) -> PartitionOracle | None:
        """The partition that an item names, by its bare name or the full name with the RM's own id."""
        name = item.partition or "default"
        return self.partitions.get(name if name.startswith(f"[{rm_id}]") else f"[{rm_id}]{name}")

    def _update_nodes(self, command: UpdateNodes, now: float) -> None:
        for update in command.nodes:
            partition = self._of(command.rm_id, update)
            if partition is not None:
                update_node(partition, update, now)

    def _update_applications(self, command: UpdateApplications, now: float) -> None:
        for new in command.new:
            partition = self._of(command.rm_id, new)
            if partition is not None:
                partition.add_app(new, now)
        for gone in command.remove:
            partition = self._of(command.rm_id, gone)
            if partition is not None:
                remove(partition, gone.app_id, now)

    def _update_allocations(self, command: UpdateAllocations, now: float) -> None:
        for ask in command.asks:
            partition = self._of(command.rm_id, ask)
            if partition is not None:
                take_ask(partition, ask, now)
        for request in command.releases:
            partition = self._of(command.rm_id, request)
            if partition is not None:
                release(partition, request, now)
