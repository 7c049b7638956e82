"""The asks of an application that count for a back-off, and the check that they are enough (spec § 8.3a)."""

from collections.abc import Callable

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.apps.requests import AskPlace

Stopped = Callable[[AskGroup], bool]
"""Returns True if a rule evaluated before the search for a node stops the group now (`checks.is_stopped`)."""


def backs_off(
    app: Application, threshold: int, found: AskPlace | None, stopped: Stopped, *, asking: bool
) -> bool:
    """True if `threshold` asks or more found no node and precede another ask.

    The other ask is `found`, which could be placed; None means any ask. Asks that are stopped regardless of
    nodes do not count: asks beyond a quota, asks with a predicate unless the RM is being asked (`asking`),
    and asks that back off themselves.
    """
    # Without `found`, the ask that the others precede has found no node itself, so one more is needed.
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
    """Groups parked for lack of nodes that an earlier rule stops now.

    The pass tries them, so that they count for a back-off once only the lack of nodes stops them.
    """
    groups = app.groups.values()
    return [one for one in groups if one.blocker is not None and _is_nodeless(one) and stopped(one)]


def _is_nodeless(group: AskGroup) -> bool:
    """True if the asks of the group fitted no node in the last try."""
    return bool(group.waiting) and group.unplaceable
