"""Which asks of an application count for a back-off, and when there are enough of them (spec § 8.3a)."""

from collections.abc import Callable

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.apps.requests import Place

Stopped = Callable[[AskGroup], bool]
"""True if a rule that comes before the search for a node stops the group by now (`checks.is_stopped`)."""


def backs_off(
    app: Application, threshold: int, found: Place | None, stopped: Stopped, *, asking: bool
) -> bool:
    """True if as many asks as the threshold found no node and stand before another ask.

    The other ask is `found`, the one that could be placed; without one it is any. Asks that are not
    tried do not count, whatever nodes there are: those beyond a quota, and those that the RM has a
    say in unless it is being asked (`asking`), and those that back off themselves.
    """
    # With nothing to place, the ask after the last one allowed is the one that shows it.
    enough = threshold if found is not None else threshold + 1
    stuck = [
        group
        for group in app.groups.values()
        if _is_nodeless(group) and (asking or group.ask_class.predicate is None) and not stopped(group)
    ]
    count = 0
    for group in stuck:
        if group.comes_before(found):
            count += group.count_before(found, enough - count)
            if count >= enough:
                return True
    if found is not None or count < threshold:
        return False
    last = max(place for group in stuck for place in group.heap if waits(place))
    return any(last < request.place for request in app.pending() if request.group is not None)


def stopped_meanwhile(app: Application, stopped: Stopped) -> list[AskGroup]:
    """Groups parked for want of nodes that a rule before the search stops by now.

    Then they count in a back-off as soon as only nodes stop them.
    """
    groups = app.groups.values()
    return [one for one in groups if one.blocker is not None and _is_nodeless(one) and stopped(one)]


def _is_nodeless(group: AskGroup) -> bool:
    """True if no node took the asks of the group when they were tried last."""
    return bool(group.waiting) and group.unplaceable
