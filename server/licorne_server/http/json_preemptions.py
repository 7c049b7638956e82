"""Victims of preemption in REST: our own addition, the older core shows none."""

from functools import partial

from licorne_core.scheduling.preemption.ledger import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.http.stream import JsonObject, Rows
from licorne_server.http.units import rest_name, times
from licorne_server.wire.responses import nanoseconds


def preemptions(views: Views, partition: PartitionName, app_id: str, key: str) -> Rows:
    """The victims of a partition that are remembered, the latest first.

    With an application or a key only those of it.
    """
    row = partial(_preemption_json, rest_name(views, partition))
    return Rows(views.preemptions(partition, app_id, key), row)


def _preemption_json(partition: str, record: PreemptionRecord) -> JsonObject:
    queue = record.beneficiary_queue
    return {
        "partition": partition,
        "applicationId": record.app_id,
        "allocationKey": record.key,
        "nodeId": record.node_id,
        "resource": dict(record.resources),
        "priority": record.priority,
        "rule": record.rule.value,
        **times(nanoseconds, preemptionTime=record.time, releasedTime=record.released_time),
        "beneficiary": _beneficiary_json(record),
        "victimQueue": _queue_json(record.victim_queue),
        "beneficiaryQueue": None if queue is None else _queue_json(queue),
    }


def _beneficiary_json(record: PreemptionRecord) -> JsonObject | None:
    """The ask that is to run instead; None where a maximum was enforced."""
    if record.rule is PreemptionRule.QUOTA:
        return None
    return {
        "applicationId": record.beneficiary_app_id,
        "allocationKey": record.beneficiary_key,
        "priority": record.beneficiary_priority,
    }


def _queue_json(numbers: QueueNumbers) -> JsonObject:
    """A queue as it was when the victim was chosen."""
    return {
        "queueName": numbers.path,
        "guaranteedResource": dict(numbers.guaranteed),
        "maxResource": dict(numbers.max),
        "allocatedResource": dict(numbers.allocated),
        "preemptingResource": dict(numbers.preempting),
        "promisedResource": dict(numbers.promised),
    }
