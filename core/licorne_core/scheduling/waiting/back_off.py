"""Back-off of an application after too many of its asks found no node (spec § 8.3a)."""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.apps.requests import Place
from licorne_core.model.quotas import within_max


def backs_off(app: Application, threshold: int, found: Place | None, *, asking: bool) -> bool:
    """True if as many asks as the threshold found no node and stand before another ask.

    The other ask is `found`, the one that could be placed; without one it is any. Asks that are not
    tried do not count, whatever nodes there are: those beyond a quota, and those that the RM has a
    say in unless it is being asked (`asking`), and those that back off themselves.
    """
    # With nothing to place, the ask after the last one allowed is the one that shows it.
    enough = threshold if found is not None else threshold + 1
    stuck = [group for group in app.groups.values() if _is_stuck(group, asking=asking)]
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


def _is_stuck(group: AskGroup, *, asking: bool) -> bool:
    """True if no node takes the asks of the group, though they would be tried."""
    if not (group.waiting and group.unplaceable):
        return False
    _, task_group, is_placeholder = group.key
    if group.app.gang.open_group(task_group, placeholder=is_placeholder) is not None:
        # It was tried before there were placeholders that it waits for now (§ 6.4).
        return False
    items = group.ask_class.items
    tried = asking or group.ask_class.predicate is None
    return tried and all(within_max(quota, items) for quota in group.app.quotas)
