"""Holding what the RM has to agree to, and what its answers do (spec § 8.4)."""

from collections.abc import Mapping

from licorne_core.apps.application import Application
from licorne_core.commands import AnswerPredicates, FailMode
from licorne_core.effects import Effect
from licorne_core.handlers.made import tell
from licorne_core.handlers.outcome import Outcome
from licorne_core.ids import AllocationKey, NodeId
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.registry import Rm
from licorne_core.scheduling.cycle import Candidate, Claimed
from licorne_core.scheduling.gates import PREDICATES
from licorne_core.scheduling.questions import NO_ANSWER, Held, Question
from licorne_core.scheduling.reserving import note_allocating


def hold(partition: Partition, candidate: Candidate, now: float) -> None:
    """Book the allocation and ask the RM; it is told of it when it has agreed to the node."""
    leaf, app, entry, node = candidate
    ask = entry[3]
    run = app.runs[ask.ask_class]
    question = partition.questions.ask(run, ask, node, now)
    held = Held(app, ask.key, node, ask.key in run.told)
    partition.commit(candidate, now, seen=False)
    partition.questions.hold(question, held)
    note_allocating(leaf, app)


def reserve(partition: Partition, claimed: Claimed, now: float) -> None:
    """Reserve the node; where the RM has a say, until it refuses."""
    leaf, app, entry, node = claimed
    ask = entry[3]
    reservation = partition.reservations.reserve(leaf, app, entry, node, now)
    if not reservation.required and partition.questions.needs(ask.ask_class, node, allocate=False):
        question = partition.questions.ask_to_reserve(ask, node, now)
        question.reservations.append(reservation)


def put_back(partition: Partition, app: Application, key: AllocationKey) -> None:
    """The ask is pending again, whatever the RM is going to say."""
    held = _let_go(partition, app, key)
    partition.put_back(app, key)
    if held.told:
        app.runs[app.pending[key][3].ask_class].told.add(key)


def put_all_back(partition: Partition, app: Application) -> None:
    """All of the application's held asks are pending again."""
    for key in list(app.held):
        put_back(partition, app, key)


def answer_predicates(rm: Rm, command: AnswerPredicates, now: float) -> list[Effect]:
    """An answer to a question that is not open any more is ignored."""
    for partition in rm.partitions.values():
        question = partition.questions.close(command.question)
        if question is not None:
            was_full = partition.questions.full
            partition.questions.hear()
            _note_room(partition, was_full=was_full)
            outcome = Outcome()
            reasons = {r.node_id: r.reason or "refused" for r in command.refused}
            for node in _remember(partition, question, reasons):
                partition.node_changed(node)
            _settle(partition, question, reasons, now, outcome)
            return outcome.effects(rm.rm_id) + partition.questions.take_unsent()
    return []


def answer_overdue(partition: Partition, number: int, now: float, outcome: Outcome) -> None:
    """The RM did not answer in time: the nodes count as it said they should (spec § 1.1)."""
    question = partition.questions.close(number)
    policy = partition.predicates
    assert question is not None, f"question {number} has a deadline"
    assert policy is not None, "an RM that has no predicates is not asked"
    if policy.fail_mode is FailMode.OPEN:
        _settle(partition, question, {}, now, outcome)
        return
    reasons = {node.node_id: NO_ANSWER for node in question.nodes}
    _remember(partition, question, reasons)
    _settle(partition, question, reasons, now, outcome)
    partition.questions.remember_silence(question, now)


def ask_again(partition: Partition, number: int) -> None:
    """Silence is forgotten: the nodes may be tried once more."""
    for node in partition.questions.forget_silence(number):
        partition.node_changed(node)


def _remember(
    partition: Partition, question: Question, refused: Mapping[NodeId, str]
) -> list[Node]:
    return partition.questions.remember(question, refused, partition.frontier.classes)


def _settle(
    partition: Partition,
    question: Question,
    refused: Mapping[NodeId, str],
    now: float,
    outcome: Outcome,
) -> None:
    """Make or put back what waited; the RM judged each node as it knew it, so for one ask."""
    again: list[Held] = []
    for held in list(question.held.values()):
        if not question.is_about(held.node):
            again.append(held)
        elif held.node.node_id in refused:
            put_back(partition, held.app, held.key)
            held.app.runs[question.ask_class].refusals += 1
        else:
            _confirm(partition, held, now, outcome)
    if again:
        partition.questions.ask_again(again, now)
    for reservation in question.reservations:
        node = partition.nodes.by_id.get(reservation.node_id)
        live = node is not None and reservation in node.reservations.values()
        if live and reservation.node_id in refused:
            partition.reservations.end_one(reservation, now)


def _let_go(partition: Partition, app: Application, key: AllocationKey) -> Held:
    """An ask waits for no answer any more."""
    was_full = partition.questions.full
    held = partition.questions.let_go(app.app_id, key)
    _note_room(partition, was_full=was_full)
    return held


def _note_room(partition: Partition, *, was_full: bool) -> None:
    """Where too many asks waited for answers, another one may now."""
    if was_full and not partition.questions.full:
        partition.frontier.open(PREDICATES)
        partition.frontier.reserved.wake_kept(PREDICATES)


def _confirm(partition: Partition, held: Held, now: float, outcome: Outcome) -> None:
    """The RM agrees: the allocation is made."""
    app = held.app
    _let_go(partition, app, held.key)
    allocation = partition.reveal(app, held.key)
    outcome.made.setdefault(partition, []).append(allocation)
    tell(partition, partition.leaf_of(app), app, allocation, now, outcome.updates)
