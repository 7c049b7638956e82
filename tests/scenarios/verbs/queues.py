"""``queues [partition=P]``: the tree with what each queue has, waits for and may have."""

from licorne_core.values.ids import PartitionName
from licorne_core.views.queues import QueueReport
from scenarios.printing import amounts, maximum
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print the queues of a partition, children below their parents."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    return _shown(stage.driver.views.queues(name))


def _shown(queue: QueueReport) -> list[str]:
    usage = f"has {amounts(queue.allocated)}, waits for {amounts(queue.pending)}"
    lines = [f"{queue.path} {queue.state}: {usage}, max {maximum(queue.max)}"]
    for child in queue.children:
        lines += _shown(child)
    return lines
