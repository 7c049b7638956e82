"""Checks that a running tree can follow a new configuration (spec § 2.7.4)."""

from licorne_core.config.schema import QueueConfig
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.errors import Problem


def check_reload(tree: QueueTree, root: QueueConfig) -> list[Problem]:
    """The problems that make a reload impossible; nothing is changed.

    A leaf cannot become a parent as long as applications are in it. Every partition has to be
    checked before the first is reloaded, so that an update is done whole or not at all.
    """
    problems = []
    waiting = [(root, tree.root)]
    while waiting:
        config, queue = waiting.pop()
        if queue.applications and (config.parent or config.queues):
            problems.append(_cannot_become_parent(queue, config))
        for child in reversed(config.queues):
            known = queue.children.get(child.name)
            if known is not None:
                waiting.append((child, known))
    return problems


def _cannot_become_parent(queue: Queue, config: QueueConfig) -> Problem:
    return Problem(
        message=f"queue {queue.path} has applications and cannot become a parent",
        path=config.place.path,
        line=config.place.line,
        column=config.place.column,
    )
