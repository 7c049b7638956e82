"""Explanation of an ask that is no longer pending: it is on its node, being stopped, or preempted."""

from licorne_core.messages.operators import mark_text
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.messages.reports import Explanation
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import STOPPING, TO_REPLACE, Request, RequestState
from licorne_core.partitions.partition import Partition


def explain_settled(partition: Partition, app: Application, request: Request) -> Explanation:
    """Explain a request that is not pending."""
    verdict, summary = whereabouts(partition, request)
    passed = None if request.allocation is None else request.allocation.passed
    return Explanation(
        app_id=app.app_id,
        key=request.key,
        queue=app.queue_path,
        verdict=verdict,
        summary=summary if passed is None else f"{summary}; {passed.text}",
        node_id=node_of(request),
        passed=passed,
        is_victim=record_of(partition, request) is not None,
    )


def explain_preempted(record: PreemptionRecord) -> Explanation:
    """Explain a victim that has ended."""
    return Explanation(
        app_id=record.app_id,
        key=record.key,
        queue=record.victim_queue.path,
        verdict="preempted",
        summary=f"preempted on node {record.node_id} {_cause(record)}{_losses(record)}",
        node_id=record.node_id,
        is_victim=True,
    )


def why_stopped(request: Request) -> str:
    """Reason why the RM was asked to stop a request; empty if it was not.

    A placeholder whose real request was removed meanwhile counts as timed out (spec § 6.12).
    """
    if request.state is RequestState.PREEMPTING:
        return "preempted"
    if request.state is RequestState.RELEASING:
        if not request.ask.placeholder:
            return "application stopped"
        return "timeout" if request.partner is None else "replaced"
    return ""


def whereabouts(partition: Partition, request: Request) -> tuple[str, str]:
    """The verdict and the summary of a request that is not pending."""
    node_id = node_of(request)
    if request.state in TO_REPLACE and request.partner is not None:
        placeholder = f"placeholder {request.partner.key}"
        if request.state is RequestState.MATCHED:
            return "assumed", f"runs on node {node_id} instead of {placeholder} if the RM agrees"
        return "replacing", f"runs on node {node_id} once the RM has stopped {placeholder}"
    if request.state is RequestState.ASSUMED:
        return "assumed", f"assumed on node {node_id} until the RM agrees"
    stay = partition.stays.get(request)
    if stay is not None:
        return "noticed", f"runs on node {node_id}, and will be preempted {_cause(stay.record)}"
    if request.state in STOPPING:
        why = _stop(partition, request)
        return "stopping", f"on node {node_id} until the RM has stopped it: {why}"
    return "allocated", f"allocated on node {node_id}"


def node_of(request: Request) -> str:
    """Node of a request, or of the placeholder that it replaces; empty if there is none."""
    here = request if request.allocation is not None else request.partner
    return "" if here is None or here.allocation is None else here.allocation.node_id


def _stop(partition: Partition, request: Request) -> str:
    """The reason why a request is being stopped, in words."""
    if request.state is RequestState.PREEMPTING:
        record = record_of(partition, request)
        if record is not None and record.rule is PreemptionRule.DRAIN:
            node = partition.nodes.by_id[record.node_id]
            if node.closed is not None:
                return f"node drained{mark_text(node.closed)}"
        return "preempted" if record is None else f"preempted {_cause(record)}{_losses(record)}"
    if request.partner is not None:
        return f"{request.partner.key} takes its place"
    if not request.ask.placeholder:
        return "an operator has stopped its application"
    return "no real allocation takes its place"


def record_of(partition: Partition, request: Request) -> PreemptionRecord | None:
    """The preemption record of the request, or of an earlier one with its key; None if there is neither."""
    return partition.ledger.find(request.ask.app_id, request.key)


def _losses(record: PreemptionRecord) -> str:
    """Work that a victim lost, and the loss of the next candidate; empty if neither is recorded."""
    if record.spared is None and record.checkpoint is None:
        return ""
    lost = f"; it lost {record.lost:.0f} s of work"
    if record.spared is None:
        return lost
    other = record.spared
    return f"{lost}, where {other.app_id}/{other.key}, the next to go, would have lost {other.lost:.0f} s"


def _cause(record: PreemptionRecord) -> str:
    """The ask for which a victim was stopped, or another reason for its end, in words."""
    if record.rule is PreemptionRule.DRAIN:
        return "because its node was drained"
    if record.beneficiary_queue is None or record.rule is PreemptionRule.QUOTA:
        queue = record.beneficiary_queue or record.victim_queue
        return f"because queue {queue.path} had more than its maximum"
    whom = f"for ask {record.beneficiary_key} of application {record.beneficiary_app_id}"
    if record.rule is PreemptionRule.REQUIRED_NODE:
        return f"{whom}, which may go to no other node"
    return f"{whom}, as queue {record.beneficiary_queue.path} was below its {record.rule.replace('-', ' ')}"
