"""Shared parts of all modules that change the books."""

from typing import NamedTuple

from licorne_core.model.nodes.book import NodeBook
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.waiting.changes import Changes
from licorne_core.scheduling.waiting.wakeups import Wakeups


class Ground(NamedTuple):
    """The nodes of one partition, and the listeners to changes."""

    nodes: NodeBook
    node_index: NodeIndex
    changes: Changes
    wakeups: Wakeups
