"""Telling victims to stop: for asks below a guarantee, or bound to a node (spec §§ 9.4, 9.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.gang_rules import PairEvent
from licorne_core.apps.groups import AskGroup
from licorne_core.apps.requests import Request
from licorne_core.apps.states import SCHEDULABLE
from licorne_core.commands import AnswerPreemptions, FailMode, TerminationType
from licorne_core.effects import Effect, Release
from licorne_core.facts.preemption import VictimPreempted
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.predicates import roll_back
from licorne_core.ids import NodeId
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.preemption import Plan, Victim, loss_of
from licorne_core.preemption.ledger import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.preemption.plans import Score
from licorne_core.preemption.ranks import seconds_run
from licorne_core.queues.queue import Queue
from licorne_core.registry import Rm
from licorne_core.scheduling.checks import application_blocker
from licorne_core.scheduling.measures import stops_preemption
from licorne_core.scheduling.preempting import PreemptionCall, ToClear, ToPreempt

FOR_ASK = "preempting allocations to free up resources to run ask: {}"
FOR_DAEMON = "preempting allocations to free up resources to run daemon set ask: {}"


class Beneficiary(NamedTuple):
    """The ask for which victims have to go, and the node that it is to have."""

    leaf: Queue
    app: Application
    request: Request
    node: Node
    rule: PreemptionRule


class Choice(NamedTuple):
    """A plan and how far the RM wants it carried; the smallest score is the best."""

    score: Score
    plan: Plan
    upto: int


def preempt(partition: Partition, found: ToPreempt, now: float, outcome: Outcome) -> None:
    """Stop the victims of the best plan. Where the RM has a say in them it is asked first."""
    leaf, app, request, plans = found
    if partition.preemption.asks_rm(request):
        group: AskGroup = request.group
        wants = group.preemption_request
        assert wants is not None, f"{request!r} has asked for victims"
        partition.preemption.ask(partition.calls, wants, request, plans)
        partition.escalation.ask_about_victims(wants)
        return
    best = plans[0]
    rule = PreemptionRule.GUARANTEE
    _stop_for(
        partition, Beneficiary(leaf, app, request, best.node, rule), best.victims, now, outcome
    )


def clear(partition: Partition, found: ToClear, now: float, outcome: Outcome) -> None:
    """Stop the victims on the only node that an ask may go to."""
    leaf, app, request, node, victims = found
    beneficiary = Beneficiary(leaf, app, request, node, PreemptionRule.REQUIRED_NODE)
    _stop_for(partition, beneficiary, victims, now, outcome)


def answer_preemptions(rm: Rm, command: AnswerPreemptions, now: float) -> list[Effect]:
    """The RM says who has to go. An answer to a check that is not open is ignored."""
    outcome = Outcome()
    for answer in command.answers:
        name = rm.context.partition_of(answer.check)
        partition = None if name is None else rm.find(name)
        call = None if partition is None else partition.calls.find(answer.check)
        if partition is not None and isinstance(call, PreemptionCall):
            partition.calls.close(answer.check)
            _note_answer(partition)
            _settle(partition, call, _choices(call, answer.needed), now, outcome)
    return outcome.effects(rm.rm_id)


def call_overdue(partition: Partition, call: PreemptionCall, now: float, outcome: Outcome) -> None:
    """The RM did not say who has to go: its fail mode says what that means."""
    _note_answer(partition)
    policy = partition.rm.predicates
    if policy is not None and policy.fail_mode is FailMode.OPEN:
        needed = {plan.node.node_id: plan.start for plan in call.plans}
        _settle(partition, call, _choices(call, needed), now, outcome)
    elif _is_current(partition, call):
        partition.escalation.pause(call.wants, now)


def _note_answer(partition: Partition) -> None:
    """A question is not open any more: where too many were, another ask may have its turn."""
    if partition.preemption.answered():
        partition.wakeups.waiting.changed(partition.preemption.questions_open)


def _choices(call: PreemptionCall, needed: Mapping[NodeId, int]) -> list[Choice]:
    """What the RM agrees to, the best first; a position outside a plan's victims is a refusal."""
    choices = []
    for plan in call.plans:
        upto = needed.get(plan.node.node_id)
        if upto is None or not plan.start <= upto < max(len(plan.offered), plan.start + 1):
            continue
        choices.append(Choice(plan.score_upto(upto), plan, upto))
    return sorted(choices, key=lambda choice: choice.score)


def _settle(
    partition: Partition, call: PreemptionCall, choices: list[Choice], now: float, outcome: Outcome
) -> None:
    """Carry out the best choice that still stands; without any the next nodes are looked at.

    If the ask was served meanwhile, or is gone, it is the next one's turn at once.
    """
    if not _is_current(partition, call):
        return
    app, request, wants = call.app, call.request, call.wants
    if not choices:
        wants.refused.update(dict.fromkeys(plan.node for plan in call.plans))
    if not (choices and request.is_pending):
        partition.escalation.rank(wants, now)
        partition.changes.app_is_due(app)
        return
    search = partition.preemption.search
    for _, plan, upto in choices if _is_allowed(partition, app, wants.group, now) else ():
        if search.stands(app, request, plan, upto, now):
            victims = plan.victims_upto(upto)
            rule = PreemptionRule.GUARANTEE
            beneficiary = Beneficiary(app.leaf, app, request, plan.node, rule)
            _stop_for(partition, beneficiary, victims, now, outcome)
            wants.refused.clear()
            return
    # Something has changed since the RM was asked.
    partition.escalation.pause(wants, now)


def _is_allowed(partition: Partition, app: Application, group: AskGroup, now: float) -> bool:
    """Whether victims may be stopped for asks of the group now, as if they were tried (§ 9.2).

    That the RM owes very many answers is no reason against it: it is not asked anything.
    """
    if partition.holds or app.state not in SCHEDULABLE:
        return False
    scene = partition.scene
    if 0 < app.backoff_until <= now:
        # It is over, though its deadline comes behind the one that is dealt with now.
        scene.escalation.on_time(app, now)
        partition.changes.app_is_due(app)
    blocker = application_blocker(scene, app) or stops_preemption(scene, app, group)
    if blocker is None or blocker is scene.predicates.owed:
        return True
    blocker.retire_if_unused()
    return False


def _is_current(partition: Partition, call: PreemptionCall) -> bool:
    """Whether the group of the ask still waits for the answer; then it waits no more."""
    wants = call.wants
    known = partition.applications.get(call.app.app_id) is call.app
    if not known or wants.group.preemption_request is not wants:
        return False
    wants.is_asking = False
    return True


def _stop_for(
    partition: Partition,
    beneficiary: Beneficiary,
    victims: Sequence[Victim],
    now: float,
    outcome: Outcome,
) -> None:
    """Tell the RM to stop the victims, and keep what they free for the beneficiary (§ 9.4.8)."""
    leaf, app, request, _, rule = beneficiary
    text = (FOR_ASK if rule is PreemptionRule.GUARANTEE else FOR_DAEMON).format(request.key)
    numbers = QueueNumbers.of(leaf)
    records = [
        replace(
            record_of(victim, rule, now),
            beneficiary_app_id=app.app_id,
            beneficiary_key=request.key,
            beneficiary_priority=request.ask.priority,
            beneficiary_queue=numbers,
        )
        for victim in victims
    ]
    for victim, record in zip(victims, records, strict=True):
        stop_victim(partition, victim, record, text, now, outcome)
        fact = VictimPreempted(now, victim.request.ask, request.ask, leaf.path)
        partition.journal.note(fact)
    _keep_node(partition, beneficiary, now)
    request.triggered = True
    stopped = {victim.request: victim.app for victim in victims}
    partition.reservations.promise(app, request, stopped, now)
    partition.escalation.rank_all(request.group, now)


def stop_victim(
    partition: Partition,
    victim: Victim,
    record: PreemptionRecord,
    text: str,
    now: float,
    outcome: Outcome,
) -> None:
    """Tell the RM to stop one victim, and write it down; who was to replace it waits again."""
    app, request, _ = victim
    if request.partner is not None:
        roll_back(partition, app, request.partner, PairEvent.TOLD, now)
    leaf = partition.leaf_of(app)
    if leaf.settings.preemption_loss_limit:
        lost = loss_of(request.ask.ask_class.items, seconds_run(request, now))
        partition.losses.add(leaf.path, lost, now)
    partition.allocations.preempt(app, request)
    partition.ledger.note(record)
    release = Release(
        app_id=app.app_id,
        key=request.key,
        termination=TerminationType.PREEMPTED_BY_SCHEDULER,
        message=text,
    )
    outcome.release(partition, release)


def record_of(victim: Victim, rule: PreemptionRule, now: float) -> PreemptionRecord:
    """What the ledger says of a victim; for whom it has to go is not in it yet."""
    ask = victim.request.ask
    return PreemptionRecord(
        app_id=ask.app_id,
        key=ask.key,
        node_id=victim.node.node_id,
        resources=ask.ask_class.resources,
        priority=ask.priority,
        time=now,
        rule=rule,
        victim_queue=QueueNumbers.of(victim.app.leaf),
    )


def _keep_node(partition: Partition, beneficiary: Beneficiary, now: float) -> None:
    """Reserve the node for the beneficiary; lesser reservations there end, and its own elsewhere.

    Asks that may go to no other node share it.
    """
    _, app, request, node, _ = beneficiary
    for reservation in list(node.reservations.values()):
        if reservation is not request.reservation and not reservation.required:
            partition.reservations.lose_node(reservation, now)
    own = request.reservation
    if own is not None and own.node_id != node.node_id:
        partition.reservations.end(own, now)
    if request.reservation is None:
        partition.reservations.reserve(app, request, node, now, now)
