"""``queue PATH... [partition=P]``: what queues are made to be, by configuration or template."""

from licorne_core.values.ids import PartitionName
from licorne_core.views.queues import QueueReport
from scenarios.printing import amounts, maximum
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print the settings of each queue that are not the default."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    lines = []
    for path in line.words:
        queue = stage.driver.views.queue(name, path)
        kind = "leaf" if queue.is_leaf else "parent"
        made = "managed" if queue.is_managed else "dynamic"
        lines.append(f"{queue.path} {queue.state}: {made} {kind}")
        lines += [f"  {what}" for what in _settings(queue)]
    return lines


def _settings(queue: QueueReport) -> list[str]:
    backoff = f"back-off after {queue.backoff_threshold} asks, for {queue.backoff_delay:g} s"
    shown = {
        f"guaranteed {amounts(queue.guaranteed)}": queue.guaranteed,
        f"max {maximum(queue.max)}": queue.max and queue.parent,
        f"{queue.max_applications} applications at once": queue.max_applications,
        f"sorted {queue.sort_policy}": queue.sort_policy != "fifo",
        "priorities only break ties": not queue.priority_sort,
        f"priority offset {queue.priority_offset}": queue.priority_offset,
        "priority fence": queue.priority_fence,
        f"preemption {queue.preemption_policy}": queue.preemption_policy != "default",
        backoff: queue.backoff_threshold,
        "template for the leaves below": queue.template,
    }
    return [what for what, is_set in shown.items() if is_set]
