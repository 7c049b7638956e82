"""Fields about the usage that orders queues, and users in a leaf."""

from collections.abc import Mapping
from dataclasses import dataclass

from licorne_core.extensions.fair_memory.decayed import Decayed, hours_of_due, weighted
from licorne_core.extensions.fair_memory.extension import FairMemory, weight_of
from licorne_core.model.queues.queue import Queue, denominators
from licorne_core.model.quotas import Tracker
from licorne_core.values.resources import Resources
from licorne_core.values.windows import HOUR
from licorne_core.views.fields import Added, Share, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareReport:
    """Decayed usage of a queue, or of a user in a leaf.

    `decayed` is in amounts times hours. `share` is the value that orders siblings, or users: infinite for
    a queue of weight 0.
    """

    decayed: Mapping[str, float]
    share: Share
    weight: float
    half_life: Span


def usage_report(account: Decayed, divisors: Resources, weight: float, now: float) -> FairShareReport:
    """An account as of `now`, or of the last change if that is later."""
    sums = account.at(now)
    return FairShareReport(
        decayed={name: value / HOUR for name, value in sorted(sums.items()) if value},
        share=weighted(hours_of_due(sums, divisors), weight),
        weight=weight,
        half_life=account.half_life,
    )


def _of_queue(own: FairMemory, queue: Queue, now: float) -> FairShareReport | None:
    account = own.account_of(queue)
    if account is None:
        return None
    return usage_report(account, denominators(queue), weight_of(queue), now)


def _of_user(own: FairMemory, tracker: Tracker, now: float) -> FairShareReport | None:
    leaf = own.context.tree.get(tracker.path) if tracker.kind == "user" else None
    users = None if leaf is None else own.users_of(leaf)
    if leaf is None or users is None:
        return None
    account = users.account(tracker.name) or Decayed(users.half_life, now)
    return usage_report(account, denominators(leaf), 1.0, now)


FIELDS = {
    "queue": (Added("fair_share", FairShareReport | None, _of_queue, of_time=True),),
    "usage": (Added("fair_share", FairShareReport | None, _of_user, of_time=True),),
}
