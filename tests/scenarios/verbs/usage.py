"""``usage user|group NAME [partition=P]``: what somebody has, queue by queue."""

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views.queues import QueueUsage
from scenarios.printing import amounts, maximum
from scenarios.stage import Line, Stage
from support.core.steps import last


def run(stage: Stage, line: Line) -> list[str]:
    """Print the tree of usage, with the limits that are in force."""
    partition = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    kind, name = line.words
    try:
        return _shown(last(stage.driver.views.usage(partition, kind, name)).queues)
    except NotFound as error:
        return [str(error)]


def _shown(usage: QueueUsage) -> list[str]:
    running = " ".join(usage.applications) or "-"
    limits = f"max {maximum(usage.max)}"
    if usage.max_applications:
        limits += f" and {usage.max_applications} applications"
    lines = [f"{usage.path}: has {amounts(usage.allocated)}, running {running}, {limits}"]
    for child in usage.children:
        lines += _shown(child)
    return lines
