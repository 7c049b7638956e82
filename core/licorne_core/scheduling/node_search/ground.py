"""What everything works on that changes who has what."""

from typing import NamedTuple

from licorne_core.model.nodes.book import NodeBook
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.waiting.changes import Changes
from licorne_core.scheduling.waiting.wakeups import Wakeups


class Ground(NamedTuple):
    """The nodes of one partition, and those who are told of every change."""

    nodes: NodeBook
    node_index: NodeIndex
    changes: Changes
    wakeups: Wakeups
