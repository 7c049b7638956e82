"""Things in a core by the names that items of commands have for them."""

from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, RmId, normalize_partition


def partition_meant(scheduler: Scheduler, rm_id: RmId, named: str) -> Partition | None:
    """The partition that an item of an RM names; None if the RM has none of that name."""
    name = normalize_partition(rm_id, named)
    if name is None:
        return None
    known = scheduler.partitions
    if name not in known:
        # It may be spelled with other case.
        try:
            name = scheduler.views.resolve(name)
        except NotFound:
            return None
    return known[name]


def request_of(partition: Partition | None, app_id: AppId, key: AllocationKey) -> Request | None:
    """The request of a key; None if there is none."""
    app = None if partition is None else partition.applications.get(app_id)
    return None if app is None else app.requests.get(key)
