"""Effects that are not sent to their RM, each of them on purpose."""

from typing import Any

import pytest

from licorne_core.extensions.drains.messages import DrainTerms, NodeDrainBegun, NodeSchedulableSet
from licorne_core.extensions.holds.messages import UNMARKED, ApplicationChanged, ApplicationHeld, MarksEnded
from licorne_core.extensions.queue_stops.messages import QueueStoppedSet
from licorne_core.extensions.stops.messages import ApplicationStopped
from licorne_core.messages import effects
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import PartitionName, QueuePath, RmId
from licorne_server.wire.responses import AllocationEncoder, payloads
from support.core.unions import kinds_of

RM = RmId("rm")
UNSENT = (
    effects.Registered(rm_id=RM, session=1),
    effects.RegistrationFailed(rm_id=RM, reason="r"),
    effects.ConfigurationUpdated(rm_id=RM, changed=True),
    effects.ConfigurationRefused(rm_id=RM, reason="r"),
    effects.NotRegistered(rm_id=RM, reason="r"),
    effects.OperatorRefused(rm_id=RM, refusal=effects.OperatorRefusal.NOT_FOUND, reason="r"),
    NodeSchedulableSet(rm_id=RM, changed=True, allocations=0),
    NodeDrainBegun(rm_id=RM, terms=DrainTerms(start=0, deadline=0, allocations=0), exempt=0),
    ApplicationStopped(rm_id=RM, allocations=0, asks=0),
    QueueStoppedSet(rm_id=RM, changed=True, state="Stopped"),
    ApplicationHeld(rm_id=RM, changed=True, asks=0, allocations=0),
    ApplicationChanged(rm_id=RM, changed=True, queue=QueuePath("root.a"), marks=UNMARKED),
    MarksEnded(rm_id=RM, applications=[]),
    effects.Happened(rm_id=RM, facts=()),
    effects.PredicatesAsked(rm_id=RM, partition=PartitionName("[rm]default"), checks=(), deadline=1.0),
    effects.PreemptionsAsked(rm_id=RM, partition=PartitionName("[rm]default"), checks=(), deadline=1.0),
)


@pytest.mark.parametrize("effect", UNSENT, ids=lambda effect: type(effect).__name__)
def test_effects_for_callers_and_logs_are_not_sent(effect: Effect) -> None:
    """Outcomes are the call's answer, facts are events, and checks have an encoder of their own."""
    assert not list(payloads(effect, AllocationEncoder()))


def test_an_effect_without_an_encoder_is_an_error() -> None:
    """A new effect without an encoder is an error, even if the type checker misses it."""
    assert {type(effect) for effect in UNSENT} < kinds_of(Effect)
    unknown: Any = object()
    with pytest.raises((AssertionError, TypeError)):
        payloads(unknown, AllocationEncoder())
