"""Listeners to changes of the books, for every module that changes them."""

from typing import NamedTuple

from licorne_core.model.nodes.book import NodeBook
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.waiting.changes import Changes
from licorne_core.scheduling.waiting.wakeups import Wakeups


class Listeners(NamedTuple):
    """The nodes of one partition with the log of their changes, the index of nodes, keys and wakeups."""

    nodes: NodeBook
    node_index: NodeIndex
    changes: Changes
    wakeups: Wakeups
