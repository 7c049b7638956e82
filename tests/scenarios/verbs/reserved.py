"""``reserved [partition=P]``: the nodes that are reserved, and for which asks."""

from licorne_core.values.ids import PartitionName
from scenarios.stage import Line, Stage
from support.core.steps import listed


def run(stage: Stage, line: Line) -> list[str]:
    """Print one line for each reservation, by node."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    return [
        f"{reservation.node_id} for {reservation.app_id}/{reservation.key}"
        for reservation in listed(stage.driver.views.reservations(name))
    ]
