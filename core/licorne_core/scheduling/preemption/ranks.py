"""Order of victims (spec § 9.3)."""

from collections.abc import Mapping
from math import isfinite

from licorne_core.model.apps.requests import Request

OPTED_OUT = 2
ORIGINATOR = 1

Age = tuple[int, float, str, str]
"""Kind, negated time of the ask, application, key: no two are equal."""

Cost = tuple[int, int, float, float, str, str]
"""Kind, priority, cost of the time that was run, then as in `Age`."""

COST_TAG = "licorne/preemption-cost"
"""Tag with the cost of a second of an ask: a number from 0, by default 1."""


def kind_of(request: Request) -> int:
    """OPTED_OUT and ORIGINATOR, added up: regular ones go first, then originators."""
    ask = request.ask
    return (0 if ask.allow_preempt_self else OPTED_OUT) + (ORIGINATOR if ask.originator else 0)


def age_of(request: Request) -> Age:
    """The rank where victims go by age: the youngest first."""
    ask = request.ask
    return (kind_of(request), -request.create_time, ask.app_id, ask.key)


def costs_of(request: Request, run: float) -> Cost:
    """The rank where victims go by cost, after so many seconds."""
    kind, youth, app_id, key = age_of(request)
    ask = request.ask
    return (kind, ask.priority, cost_of(ask.tags) * run, youth, app_id, key)


def cost_of(tags: Mapping[str, str]) -> float:
    """Cost of a second of an allocation; 1 where the tag is missing or no number from 0."""
    try:
        cost = float(tags[COST_TAG])
    except (KeyError, ValueError):
        return 1.0
    return cost if isfinite(cost) and cost >= 0 else 1.0


def seconds_run(request: Request, now: float) -> float:
    """Seconds that an allocation has run; a recovered one runs since its ask's creation."""
    allocation = request.allocation
    assert allocation is not None, f"{request!r} runs nowhere"
    brought = request.ask.node_id is not None
    return now - (request.create_time if brought else allocation.allocation_time)
