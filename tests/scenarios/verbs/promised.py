"""``promised [partition=P]``: queues that lose victims, or that wait for what victims leave."""

from licorne_core.values.ids import PartitionName
from scenarios.printing import amounts
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print the queues that lose victims or have something promised."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    tree = stage.driver.scheduler.partitions[name].tree
    return [
        f"{queue.path}: preempting {amounts(queue.preempting)}, promised {amounts(queue.promised)}"
        for queue in tree.walk()
        if any(queue.preempting.values()) or any(queue.promised.values())
    ]
