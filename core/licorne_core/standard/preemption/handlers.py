"""Stops of victims: for asks below a guarantee or fair share, or bound to a node (spec §§ 9.4, 9.5)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from licorne_core.handlers.outcome import Answered, Answers, Commands, Decisions, Outcome
from licorne_core.ledger.stops import numbers_of
from licorne_core.messages.commands import AnswerPreemptions, FailMode
from licorne_core.messages.effects import Effect
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.points import MOST_SETTLED
from licorne_core.scheduling.calls import Call
from licorne_core.scheduling.checks import STOPPABLE, application_blocker
from licorne_core.standard.predicates.checks import PredicateCheck, checks_of
from licorne_core.standard.preemption.decisions import PreemptionCall, Proposal, ToClear, ToPreempt, ask_about
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.hosts import is_promised, yields
from licorne_core.standard.preemption.planning import Score, VictimPlan
from licorne_core.standard.preemption.remedy import stops_preemption
from licorne_core.standard.preemption.requests import ask_about_victims, pause, preemption_request_of
from licorne_core.standard.preemption.stopping import record_of, stop_victims
from licorne_core.standard.preemption.victims import Victim
from licorne_core.values.ids import NodeId


class Beneficiary(NamedTuple):
    """The ask for which victims are stopped, and the node that is reserved for it."""

    app: Application
    request: Request
    node: Node
    rule: PreemptionRule


class Choice(NamedTuple):
    """A plan with victims up to the position that the RM chose; the smallest score is the best."""

    score: Score
    plan: VictimPlan
    upto: int


def preempt(partition: Partition, found: ToPreempt, now: float, outcome: Outcome) -> None:
    """Stop the victims of the best plan; if the RM has a predicate for the ask, ask the RM first."""
    app, request, plans = found
    if preemption_of(partition.check_context).remedy.asks_rm(request) and _ask(
        partition, app, request, plans
    ):
        return
    best = plans[0]
    _stop_for(partition, Beneficiary(app, request, best.node, best.rule), best.victims, now, outcome)


def _ask(partition: Partition, app: Application, request: Request, plans: tuple[VictimPlan, ...]) -> bool:
    """Ask the RM about the plans; return False if it has already accepted the node of the best one."""
    group: AskGroup = request.group
    wants = preemption_request_of(group)
    assert wants is not None, f"{request!r} has asked for victims"
    remedy = preemption_of(partition.check_context).remedy
    proposal = Proposal(app, wants, request, plans)
    if remedy.rm_judges_victims:
        ask_about(proposal, partition.calls)
    else:
        proposal = proposal.upto_known()
        if not proposal.unknown:
            return False
        checks_of(partition.check_context).ask_for(proposal, request, proposal.unknown)
    remedy.questions_open.count += 1
    ask_about_victims(partition.escalation, wants)
    return True


def clear(partition: Partition, found: ToClear, now: float, outcome: Outcome) -> None:
    """Stop the victims on the only node on which the ask may be placed."""
    app, request, node, victims = found
    beneficiary = Beneficiary(app, request, node, PreemptionRule.REQUIRED_NODE)
    _stop_for(partition, beneficiary, victims, now, outcome)


def answer_preemptions(_: Registry, rm: Rm, command: AnswerPreemptions, now: float) -> list[Effect]:
    """Apply the RM's choice of victims. An answer to a closed check is ignored."""
    outcome = Outcome()
    for answer in command.answers:
        name = rm.context.partition_of(answer.check)
        partition = None if name is None else rm.find(name)
        call = None if partition is None else partition.calls.find(answer.check)
        if partition is not None and isinstance(call, PreemptionCall):
            partition.calls.close(answer.check)
            _victims_judged(partition, call.proposal, answer.needed, now, outcome)
    return outcome.effects(rm.rm_id)


def _victims_judged(
    partition: Partition, proposal: Proposal, needed: Mapping[NodeId, int], now: float, outcome: Outcome
) -> None:
    """Apply the RM's choice of the last victim for each node; a node without a choice counts as refused."""
    _note_answer(partition)
    choices = _choices(proposal.plans, needed)
    refused = [] if choices else [plan.node for plan in proposal.plans]
    _settle(partition, proposal, choices, refused, now, outcome)


def nodes_judged(
    partition: Partition, check: PredicateCheck, refused: Collection[NodeId], now: float, outcome: Outcome
) -> None:
    """Drop the nodes of the proposal that the RM refuses with any victims.

    If the RM has changed a node since, its acceptance is void, and it is asked again.
    """
    _note_answer(partition)
    proposal = _proposal_of(check)
    name = (check.ask_class, False)
    agreed = [
        plan
        for plan in proposal.plans
        if (
            plan.node.node_id not in refused and check.stands(plan.node)
            if plan.node in check.nodes
            else plan.node.results.get(name) == ""
        )
    ]
    choices = _choices(agreed, {plan.node.node_id: plan.start for plan in agreed})
    nodes = [node for node in check.nodes if node.node_id in refused]
    _settle(partition, proposal, choices, nodes, now, outcome)


def proposal_overdue(partition: Partition, call: Call, now: float, outcome: Outcome) -> None:
    """Handle an unanswered proposal by the RM's fail mode."""
    _note_answer(partition)
    proposal = _proposal_of(call)
    policy = partition.rm.predicates
    if policy is not None and policy.fail_mode is FailMode.OPEN:
        needed = {plan.node.node_id: plan.start for plan in proposal.plans}
        _settle(partition, proposal, _choices(proposal.plans, needed), (), now, outcome)
    elif _is_current(partition, proposal):
        pause(partition.escalation, proposal.wants, proposal.request, now)


def _proposal_of(call: Call) -> Proposal:
    """The plans about which the question asks."""
    proposal = call.asker
    assert isinstance(proposal, Proposal), f"question {call.number} is about a proposal"
    return proposal


def _note_answer(partition: Partition) -> None:
    """Record that a question is closed: if too many were open, another ask may be tried."""
    remedy = preemption_of(partition.check_context).remedy
    remedy.questions_open.count -= 1
    partition.dirty.mark((remedy,))


def _choices(plans: Iterable[VictimPlan], needed: Mapping[NodeId, int]) -> list[Choice]:
    """Plans that the RM accepts, best first; a position that is not one of a plan's victims is a refusal."""
    choices = []
    for plan in plans:
        upto = needed.get(plan.node.node_id)
        if upto is None or not plan.start <= upto < max(len(plan.offered), plan.start + 1):
            continue
        choices.append(Choice(plan.score_upto(upto), plan, upto))
    return sorted(choices, key=lambda choice: choice.score)


def _settle(
    partition: Partition,
    proposal: Proposal,
    choices: list[Choice],
    refused: Iterable[Node],
    now: float,
    outcome: Outcome,
) -> None:
    """Apply the best choice that is still valid; if there is none, search the next nodes.

    If the ask was placed or has ended since, the next ask is tried immediately.
    """
    if not _is_current(partition, proposal):
        return
    app, wants, request, _ = proposal
    wants.refused.update(dict.fromkeys(refused, request.priority))
    if not (choices and request.is_pending):
        partition.escalation.try_again(wants, now)
        return
    partition.dirty.open_blockers()
    search = preemption_of(partition.check_context).search
    is_allowed = _is_allowed(partition, app, wants.group, now)
    for _, plan, upto in choices if is_allowed else ():
        if search.stands(app, request, plan, upto, now):
            victims = plan.victims_upto(upto)
            beneficiary = Beneficiary(app, request, plan.node, plan.rule)
            _stop_for(partition, beneficiary, victims, now, outcome)
            wants.refused.clear()
            return
    # Something has changed since the question to the RM. If the node is now reserved for another ask, the
    # next search may find other victims.
    if is_allowed and any(_is_kept(partition, one.plan.node, request, now) for one in choices):
        partition.escalation.try_again(wants, now)
    else:
        pause(partition.escalation, wants, request, now)


def _is_kept(partition: Partition, node: Node, request: Request, now: float) -> bool:
    """True if the node is reserved for another ask of higher precedence."""
    there, applications = node.reservations.values(), partition.applications
    return any(not yields(reservation, request, applications, now) for reservation in there)


def _is_allowed(partition: Partition, app: Application, group: AskGroup, now: float) -> bool:
    """True if the group's asks would be allowed to preempt now if they were tried (§ 9.2).

    Unanswered checks of the RM do not prevent it, as no further check is needed.
    """
    if partition.holds or app.held or app.state not in SCHEDULABLE:
        return False
    context = partition.check_context
    for extension in partition.points.pass_time if app.interests & STOPPABLE else ():
        if app.interests & STOPPABLE & extension.bit:
            # An obstacle may have expired although its deadline is handled only after the current one.
            extension.pass_time(now, MOST_SETTLED)
    blocker = application_blocker(context, app) or stops_preemption(context, app, group)
    if blocker is None or blocker is context.predicates.owed:
        return True
    blocker.retire_if_unused()
    return False


def _is_current(partition: Partition, proposal: Proposal) -> bool:
    """True if the group of the ask still waits for the answer; the call ends the wait."""
    wants, app = proposal.wants, proposal.app
    known = partition.applications.get(app.app_id) is app
    if not known or preemption_request_of(wants.group) is not wants:
        return False
    wants.is_asking = False
    return True


def _stop_for(
    partition: Partition, beneficiary: Beneficiary, victims: Sequence[Victim], now: float, outcome: Outcome
) -> None:
    """Ask the RM to stop the victims; their resources are promised to the beneficiary (§ 9.4.8)."""
    app, request, _, rule = beneficiary
    numbers = numbers_of(app.leaf)
    spared = None
    if victims and rule is not PreemptionRule.REQUIRED_NODE:
        going = {victim.request for victim in victims}
        search = preemption_of(partition.check_context).search
        spared = search.spared(app, request, beneficiary.node, going, rule, now)
    records = [
        replace(
            record_of(victim, rule, now),
            beneficiary_app_id=app.app_id,
            beneficiary_key=request.key,
            beneficiary_priority=request.priority,
            beneficiary_queue=numbers,
            spared=spared,
        )
        for victim in victims
    ]
    stop_victims(partition, victims, records, now, outcome)
    _keep_node(partition, beneficiary, now)
    request.triggered = True
    stopped = {victim.request: victim.app for victim in victims}
    partition.reservations.promise(app, request, stopped, now)
    partition.escalation.rank_all(request.group, now)
    # After an answer of the RM, nothing else marks the next ask that may preempt.
    partition.dirty.mark_due(app)


def _keep_node(partition: Partition, beneficiary: Beneficiary, now: float) -> None:
    """Reserve the node for the beneficiary; release weaker reservations of the node, and the ask's elsewhere.

    Asks that require this node may share it, and so may asks with a promise on it.
    """
    app, request, node, _ = beneficiary
    for reservation in list(node.reservations.values()):
        stays = reservation.required or is_promised(reservation, partition.applications)
        if reservation is not request.reservation and not stays:
            partition.reservations.lose_node(reservation, now)
    own = request.reservation
    if own is not None and own.node_id != node.node_id:
        partition.reservations.end(own, now)
    if request.reservation is None:
        partition.reservations.reserve(app, request, node, now, now)


DECISIONS: Final[Decisions] = {ToPreempt: preempt, ToClear: clear}
ANSWERS: Final[Answers] = {Proposal: Answered(nodes_judged, proposal_overdue)}
COMMANDS: Final[Commands] = {AnswerPreemptions: answer_preemptions}
