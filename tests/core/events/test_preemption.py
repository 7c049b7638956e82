"""What those who watch hear of victims and of placeholders that had to go (spec §§ 6.5, 9)."""

from dataclasses import replace

import pytest

from licorne_core.events.journal import Fact
from licorne_core.events.preemption import (
    NoVictimsOnRequiredNode,
    PlaceholderIncompatible,
    QuotaPreempted,
    VictimOfQuota,
    VictimPreempted,
)
from licorne_core.values.ids import NodeId, QueuePath
from support.core.builders import ask
from support.core.watching import shown

VICTIM = ask("low", "v", memory=2, vcore=100)
PLACEHOLDER = replace(ask("gang", "ph", memory=2), placeholder=True, task_group="workers")
QUEUE = QueuePath("root.a")


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            VictimPreempted(1.0, VICTIM, ask("high", "k", memory=1), QUEUE),
            (
                "REQUEST v NONE DETAILS_NONE low memory=2 vcore=100: "
                "Preempted by k from application high in root.a"
            ),
        ),
        (
            VictimOfQuota(1.0, VICTIM, QUEUE),
            (
                "REQUEST v NONE DETAILS_NONE low memory=2 vcore=100: "
                "Preempted by Quota change enforcement process in root.a"
            ),
        ),
        (
            NoVictimsOnRequiredNode(1.0, ask("daemons", "d", memory=1), NodeId("n1")),
            (
                "REQUEST d NONE DETAILS_NONE daemons memory=1: "
                "Unschedulable request 'd' with required node 'n1', no preemption victim found"
            ),
        ),
        (
            QuotaPreempted(1.0, QUEUE, {"memory": 8}, {"memory": 4}, {"memory": 3, "pods": 1}, 5, 1),
            (
                "QUEUE root.a SET QUEUE_PREEMPTION memory=8: Quota Preemption results summary: "
                "preemptable resources: map[memory:4], claimed resources: map[memory:3 pods:1], "
                "selected victims: 5, preempted victims: 1"
            ),
        ),
        (
            PlaceholderIncompatible(1.0, PLACEHOLDER, ask("gang", "real", memory=3)),
            (
                "REQUEST ph NONE DETAILS_NONE gang memory=3: Task group 'workers' in application "
                "'gang': allocation resources 'map[memory:3]' are not matching placeholder "
                "'map[memory:2]' allocation with ID 'ph'"
            ),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_preemption_has_its_events(fact: Fact, expected: str) -> None:
    """Each fact is one record in its published form, at the time at which it happened."""
    (record,) = fact.records()
    assert shown(record) == expected
    assert record.time == 1.0
    assert fact.count == 1
