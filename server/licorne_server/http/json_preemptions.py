"""Victims of preemption in REST: our own addition, the older core shows none."""

from collections.abc import Callable

from licorne_core.scheduling.preemption.ledger import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.fields import renamed
from licorne_server.http.stream import JsonObject, Rows
from licorne_server.http.units import rest_form, rest_name
from licorne_server.wire.responses import nanoseconds


def preemptions(views: Views, partition: PartitionName, app_id: str, key: str) -> Rows:
    """The victims of a partition that are remembered, the latest first.

    With an application or a key only those of it.
    """
    shown = rest_name(views, partition)

    def row(record: PreemptionRecord) -> JsonObject:
        return {**_victim(record), "partition": shown}

    return Rows(views.preemptions(partition, app_id, key), row)


def _beneficiary(record: PreemptionRecord) -> JsonObject | None:
    """The ask that is to run instead; None where a maximum was enforced."""
    return None if record.rule is PreemptionRule.QUOTA else _ask(record)


_ask: Callable[[PreemptionRecord], JsonObject] = renamed(
    PreemptionRecord,
    {
        "applicationId": "beneficiary_app_id",
        "allocationKey": "beneficiary_key",
        "priority": "beneficiary_priority",
    },
    {},
    dict,
)
_queue = rest_form(
    QueueNumbers,
    {
        "queueName": "path",
        "guaranteedResource": "guaranteed",
        "maxResource": "max",
        "allocatedResource": "allocated",
        "preemptingResource": "preempting",
        "promisedResource": "promised",
    },
)
_victim = rest_form(
    PreemptionRecord,
    {
        "applicationId": "app_id",
        "allocationKey": "key",
        "resource": ("resources", dict),
        "rule": "rule.value",
        "preemptionTime": ("time", nanoseconds),
        "releasedTime": ("released_time", nanoseconds),
        "beneficiary": _beneficiary,
        "victimQueue": ("victim_queue", _queue),
        "beneficiaryQueue": ("beneficiary_queue", lambda queue: queue and _queue(queue)),
    },
    without="beneficiary_app_id beneficiary_key beneficiary_priority number",
    optional="preemptionTime releasedTime",
)
