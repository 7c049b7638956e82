"""Members of gangs: the asks of an application that are placed together, where gangs are placed whole.

Members are all pending placeholders of a gang. A gang without placeholders may start in *units*
(`GangUnits`): its members are the asks with a task group. The unit of a running member follows from the order
in which members were booked, so that a unit is whole again when a later member replaces one that has ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from itertools import islice

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import GangUnits
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.apps.requests import VICTIMS, AskPlace, Request
from licorne_core.values.resources import Items, Resources, charge

Share = tuple[AskGroup, int]
"""A group, and the number of asks, from its first one, that are placed."""


def gang_groups(app: Application) -> list[AskGroup]:
    """The groups of pending members, in the order of their first asks."""
    gang = app.gang
    groups = [
        group
        for group in app.groups.values()
        if group.waiting and gang.is_together(group.ask_class, group.key[1], placeholder=group.key[2])
    ]
    groups.sort(key=_first_place)
    return groups


def _first_place(group: AskGroup) -> tuple[int, float, int]:
    return group.heap[0][:3]


def next_members(app: Application) -> list[Share]:
    """The asks that are placed together next: all pending placeholders, or the next unit of a gang.

    A unit with missing asks consists of those that have arrived.
    """
    return _shares(app, gang_groups(app))


def _shares(app: Application, groups: list[AskGroup]) -> list[Share]:
    units = app.gang.units
    if units is None:
        return [(group, group.waiting) for group in groups]
    wanted = units.wanted
    if len(groups) == 1 and wanted:
        return [(groups[0], min(groups[0].waiting, wanted))]
    counts: dict[AskGroup, int] = {}
    for place in islice(merge(*[in_order(group) for group in groups]), wanted):
        group = place.request.group
        counts[group] = counts.get(group, 0) + 1
    return list(counts.items())


def in_order(group: AskGroup) -> Iterator[AskPlace]:
    """Places of the pending asks of a group, in order; the cost of each does not grow with their number."""
    heap = group.heap
    found = [(heap[0], 0)] if heap else []
    while found:
        place, position = heappop(found)
        if waits(place):
            yield place
        for below in (2 * position + 1, 2 * position + 2):
            if below < len(heap):
                heappush(found, (heap[below], below))


def first_asks(share: Share) -> list[Request]:
    """The asks of a share, in order."""
    group, count = share
    if count == group.waiting:
        return [place.request for place in sorted(filter(waits, group.heap))]
    return [place.request for place in islice(in_order(group), count)]


def amounts_of(shares: Iterable[Share]) -> Items:
    """Total amounts of these asks."""
    total: dict[str, int] = {}
    for group, count in shares:
        for name, value in group.ask_class.items:
            total[name] = total.get(name, 0) + value * count
    return tuple(sorted(total.items()))


def missing_of(app: Application, shares: Iterable[Share]) -> Resources:
    """Amounts of the announced placeholders whose asks have not arrived; empty if the gang is whole.

    Only types that were announced and are requested count, as at the end of a gang's start (§ 6.7). A gang
    with booked or replaced placeholders was whole before: its later asks need not wait for others. Nor need
    those of which all were pending at a time: without the asks that were withdrawn the gang is smaller.
    """
    announced = app.gang.placeholder_ask
    if not announced or app.placeholder_count or any(one.replaced for one in app.gang.groups.values()):
        return {}
    come = dict(amounts_of(shares))
    shared = announced.keys() & come.keys()
    charge(come, tuple(app.gang.withdrawn.items()))
    return {name: announced[name] - come[name] for name in sorted(shared) if come[name] < announced[name]}


def gather_gang(app: Application) -> list[Share]:
    """Set the amounts checked against quotas to the sum over all next members; return these members."""
    groups = gang_groups(app)
    shares = _shares(app, groups)
    together = amounts_of(shares)
    for group in groups:
        group.together = together
    return shares


def units_of(app: Application) -> list[Sequence[Request]]:
    """The units of a gang in units, without members that are being stopped."""
    return _known(app, app.gang.units).whole()


def unit_of(app: Application, request: Request) -> Sequence[Request]:
    """All requests that are stopped together with a member of a gang in units; empty for other requests."""
    units = app.gang.units
    return () if units is None else _known(app, units).of(request)


def _known(app: Application, units: GangUnits | None) -> GangUnits:
    """The units, after their list of members that are not being stopped was updated."""
    assert units is not None, f"{app!r} has no units"
    if not units.is_current:
        booked = [request for request in app.booked() if app.gang.has_member(request.ask)]
        units.set_staying([request for request in booked if request.state not in VICTIMS])
    return units
