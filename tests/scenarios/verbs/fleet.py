"""``fleet [partition=P]``: the nodes, with what they have free and how full they are."""

from licorne_core.values.ids import PartitionName
from scenarios.printing import amounts
from scenarios.stage import Line, Stage
from support.core.steps import listed


def run(stage: Stage, line: Line) -> list[str]:
    """Print the nodes of a partition."""
    views = stage.driver.views
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    return [
        f"{node.node_id}{'' if node.schedulable else ' drained'}: "
        f"free {amounts(node.available)}, {node.utilization:.2f} full"
        for node in (views.node(name, each) for each in listed(views.node_ids_in_order(name)))
    ]
