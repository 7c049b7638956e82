"""Fairness over time in words: decayed usage, and the remaining hours of budgets."""

from collections.abc import Iterable
from math import isinf

from licorne.v1.state_pb2 import FairShare, HoursBudget
from licorne_cli.output.text import NOTHING, hours_text, human_text, shown_time


def decayed(share: FairShare) -> str:
    """Decayed usage in hours of the share, which orders siblings, and by resource: ``1.25h vcore=12.3``.

    ``last`` means a weight of 0, and a dash that usage is not remembered.
    """
    if not share.half_life:
        return NOTHING
    place = "last" if isinf(share.share) else f"{share.share:.3g}h"
    return f"{place} {hours_text(share.decayed)}" if share.decayed else place


def decayed_key(share: FairShare) -> float:
    """Sort key of decayed usage."""
    return share.share


def hours_left(budgets: Iterable[HoursBudget]) -> str:
    """Remaining hours of windows, ``gpu=12 of 500 until 2026-11-30 00:00:00``; a dash if there are none."""
    parts = (
        f"{hours_text({one.resource: one.left})} of {_amount(one)} until {shown_time(one.resets_at)}"
        for one in budgets
    )
    return human_text("; ".join(parts)) or NOTHING


def _amount(budget: HoursBudget) -> str:
    return hours_text({budget.resource: budget.limit}).rpartition("=")[2]
