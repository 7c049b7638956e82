"""Standing of one ask: its queue, and the code of its obstacle.

It is the census of the ask, at a cost that depends on no other waiting ask.
"""

from typing import NamedTuple

from licorne_core.model.apps.requests import TO_REPLACE, RequestState
from licorne_core.partitions.registry import Rm
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.views.census import REPLACES_PLACEHOLDER, WAITS_FOR_ANSWER, stops, stops_all


class Standing(NamedTuple):
    """Queue and obstacle of an ask."""

    partition: PartitionName
    queue: QueuePath
    reason: str
    """A code of a census; empty for an ask that waits for nothing more."""


def standing(rm: Rm, partition: str, app_id: str, key: str) -> Standing | None:
    """The ask's standing; None if there is no such ask. `partition` is the name as the RM says."""
    owner = rm.named(partition)
    app = None if owner is None else owner.applications.get(AppId(app_id))
    request = None if app is None else app.requests.get(AllocationKey(key))
    if owner is None or app is None or request is None:
        return None
    if request.is_pending:
        reason = stops_all(owner, app) or stops(app, request.group)
    elif request.state is RequestState.ASSUMED:
        reason = WAITS_FOR_ANSWER
    elif request.state in TO_REPLACE:
        reason = REPLACES_PLACEHOLDER
    else:
        reason = ""
    return Standing(owner.name, app.queue_path, reason)
