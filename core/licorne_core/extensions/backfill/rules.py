"""The rule that asks leave free, of each maximum, the amounts that are held for a planned start."""

from typing import Any, Final

from licorne_core.extensions.backfill import NAME
from licorne_core.extensions.backfill.maxima import Holding
from licorne_core.extensions.backfill.shadow_start import ShadowStart
from licorne_core.features import BITS
from licorne_core.messages.checks import RuleCheck
from licorne_core.model.apps.application import Asking
from licorne_core.model.queues.guarantees import held_by
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.rules import CheckContext, Checks, Rule, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import HeldPool, HeldShortage

MAXIMUM_HELD: Final = "MAXIMUM_HELD"

_Held = tuple[Quota, ShadowStart]
"""A quota, and the start for which some of it is held."""


class _LeavesHeld(Rule):
    """Asks under a maximum end before the starts that hold some of it, or leave those amounts free."""

    def obstacle(self, context: CheckContext, asking: Asking) -> _Held | None:
        if not context.claims.held:
            return None
        for quota in asking.app.quotas:
            if quota.claims:
                items = asking.needs(quota)
                claim = held_by(quota, asking.app.leaf, items, _runtime(asking), _own(asking))
                if claim is not None:
                    return quota, claim
        return None

    def blocker(self, context: CheckContext, asking: Asking, obstacle: _Held) -> Blocker:
        quota = obstacle[0]
        pool = context.wakeups.blockers.get(HeldPool, quota)
        return pool.behind(asking.app.leaf, asking.needs(quota), _runtime(asking), _own(asking))

    def reports(self, context: CheckContext, asking: Asking, obstacle: _Held | None) -> Checks:
        if obstacle is not None:
            quota, shadow = obstacle
            where = f"queue {quota.path}" if quota.path else f"{quota.kind} {quota.name}"
            if quota.path and quota.kind != "queue":
                where = f"the limit of {quota.kind} {quota.name} in {where}"
            yield RuleCheck(
                code=MAXIMUM_HELD,
                kind="held",
                subject=shadow.app.app_id,
                text=f"would delay the shadow start of {shadow.as_passed.holder}, for which some of the "
                f"maximum of {where} is held: it declares no end before that",
                requested=dict(asking.needs(quota)),
                until=shadow.start,
                passed=False,
            )

    def named(self, obstacle: _Held) -> tuple[str, str]:
        return MAXIMUM_HELD, obstacle[0].path or obstacle[0].name


def _own(asking: Asking) -> Any:
    """The claim of the ask, or of the first ask of the group."""
    if isinstance(asking, Holding):
        return asking.claim
    heap = asking.group.heap
    request = asking.request or (heap[0].request if heap else None)
    return None if request is None else request.claim


def _runtime(asking: Asking) -> float:
    """The longest declared runtime of the asks that are placed together."""
    group = asking.group
    if not group.together:
        return group.ask_class.runtime
    return max(one.ask_class.runtime for one in asking.app.groups.values() if one.together)


RULES: Final[tuple[Rule, ...]] = (
    _LeavesHeld(RulePlace.HELD, (MAXIMUM_HELD,), HeldShortage, interest=BITS[NAME]),
)
