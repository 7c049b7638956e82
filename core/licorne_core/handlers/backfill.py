"""Changes of `backfill`: shadow starts end, and asks get or lose the runtime in their class."""

from collections.abc import Iterator

from licorne_core.config.schema import Backfill
from licorne_core.handlers.allocations import replace_ask
from licorne_core.model.runtimes import Runtimes
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.start_search import with_runtime


def follow_backfill(partition: Partition, mode: Backfill, now: float) -> Iterator[int]:
    """Put another `backfill` in force, in steps of a job. Where it begins or ends, all asks wait anew."""
    shadows = partition.shadows
    before, shadows.mode = shadows.mode, mode
    for shadow in list(shadows)[shadows.most :]:
        shadows.give_up(shadow, now)
    yield 1
    if (before is Backfill.OFF) == (mode is Backfill.OFF):
        return
    partition.runtimes = None if mode is Backfill.OFF else Runtimes()
    partition.check_context.start_search.runtimes = partition.runtimes
    for app in list(partition.applications.values()):
        for request in list(app.pending()):
            classes = partition.check_context.start_search.classes
            ask = with_runtime(app, request.ask, classes, backfills=mode is not Backfill.OFF)
            replace_ask(partition, app, request, ask, now)
            yield 1
