"""``node ID drain | schedulable | remove | resize [vcore=N ...]``: a node changes."""

from licorne_core.messages.commands import NodeAction
from scenarios.stage import Line, Stage
from support.core.builders import node, nodes

ACTIONS = {
    "drain": NodeAction.DRAIN_NODE,
    "schedulable": NodeAction.DRAIN_TO_SCHEDULABLE,
    "remove": NodeAction.DECOMISSION,
    "resize": NodeAction.UPDATE,
}


def run(stage: Stage, line: Line) -> list[str]:
    """Change one node."""
    name, action = line.words
    partition = line.take("partition")
    update = node(name, ACTIONS[action], partition=partition, size=line.resources())
    return stage.told(stage.driver.send(nodes(update, rm=stage.rm)))
