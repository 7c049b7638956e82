"""``nodes ID... [drained] [partition=P] [zone=Z] vcore=N ...``: nodes come."""

from licorne_core.messages.commands import NodeAction
from scenarios.stage import Line, Stage
from support.core.builders import node, nodes


def run(stage: Stage, line: Line) -> list[str]:
    """Create nodes of one size."""
    drained = "drained" in line.words
    action = NodeAction.CREATE_DRAIN if drained else NodeAction.CREATE
    partition = line.take("partition")
    zone = line.take("zone")
    attributes = {"zone": zone} if zone else {}
    size = line.resources()
    new = [
        node(n, action, partition=partition, attributes=attributes, size=size)
        for n in line.words
        if n != "drained"
    ]
    return stage.told(stage.driver.send(nodes(*new, rm=stage.rm)))
