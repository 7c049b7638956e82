"""All queues or applications of a partition, as the views report them one by one."""

from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.applications import AppReport
from licorne_core.views.queues import QueueReport
from support.core.steps import listed


def queues_in(views: Views, partition: PartitionName) -> list[QueueReport]:
    """All queues, each before its children, siblings by name."""
    paths = sorted(listed(views.level_by_level(partition)), key=lambda path: path.split("."))
    return [views.queue(partition, path) for path in paths]


def applications_in(views: Views, partition: PartitionName, *, state: str = "active") -> list[AppReport]:
    """Active, completed or rejected applications, by name."""
    names = listed(views.app_ids_in_order(partition, state=state))
    return [views.application(partition, name) for name in names]
