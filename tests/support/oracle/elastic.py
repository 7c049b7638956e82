"""Elastic gangs: a minimum that starts together, and growth in whole steps (docs/topology.md).

Members and their steps are derived from the allocations, in the order of booking.
"""

from typing import NamedTuple

from support.oracle.books import VICTIMS, AllocationRecord, AppRecord, AskRecord


class Elastic(NamedTuple):
    """An application's elastic terms, in numbers of members; `most` 0 means no maximum."""

    least: int
    most: int
    step: int

    @property
    def of_units(self) -> tuple[int, int]:
        """The minimum and the step."""
        return self.least, self.step


def elastic_of(tags: dict[str, str]) -> Elastic | None:
    """The terms in the tags, which the worlds never contradict."""
    least, most, step = (int(tags.get(f"licorne/gang-{name}", "0")) for name in ("min", "max", "step"))
    return Elastic(least, most, step or 1) if least else None


def is_member(app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask is placed with others of an elastic gang."""
    return app.elastic is not None and bool(ask.task_group) and ask.required_node is None


def members(app: AppRecord) -> list[AllocationRecord]:
    """The members on nodes, in the order of booking."""
    return [one for one in app.allocations.values() if is_member(app, one.ask)]


def staying(app: AppRecord) -> list[AllocationRecord]:
    """The members that are not victims."""
    return [one for one in members(app) if one.state not in VICTIMS]


def grows(app: AppRecord) -> bool:
    """True if the gang has its minimum, so that further members are growth."""
    return app.elastic is not None and len(staying(app)) >= app.elastic.least


def wanted(app: AppRecord) -> int:
    """The number of members to place together next: those missing in the minimum, or in a step.

    It is 0 if the gang would exceed its maximum, where victims still count.
    """
    least, most, step = app.elastic
    stay = len(staying(app))
    whole = least
    while whole <= stay:
        whole += step
    return 0 if most and len(members(app)) + whole - stay > most else whole - stay


def next_asks(app: AppRecord) -> list[AskRecord]:
    """The asks to place together next, as far as they have been submitted."""
    return [ask for ask in app.asks_in_order() if is_member(app, ask)][: wanted(app)]


def units_of(app: AppRecord) -> list[tuple[list[AllocationRecord], int]]:
    """The units that can be stopped together, with the number of the step: 0 for all."""
    there = staying(app) if app.elastic is not None else []
    if not there:
        return []
    least, _, step = app.elastic
    starts = range(least, len(there), step)
    return [(there, 0), *((there[at : at + step], number) for number, at in enumerate(starts, 1))]
