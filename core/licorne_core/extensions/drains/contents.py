"""Allocations on a node, as a drain counts them."""

from collections.abc import Mapping
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import SHOWN_AS_ASKS, STOPPING, VICTIMS
from licorne_core.model.nodes.node import Node
from licorne_core.values.ids import AppId


class Contents(NamedTuple):
    """Numbers of allocations on a node, as a drain counts them."""

    remaining: int
    """Number of allocations that a drain stops, including those that are `stopping` for any reason."""
    stopping: int
    """Number of allocations that the RM was asked to stop, or will be asked to stop."""
    exempt: int
    """Number of allocations that are not stopped: foreign ones, and those of asks that require the node."""


_GOING = STOPPING | VICTIMS
"""States of an allocation that a drain need not stop; a spared allocation is considered again."""


def contents_of(applications: Mapping[AppId, Application], node: Node) -> Contents:
    """Count the allocations on a node that were reported to the RM."""
    remaining = stopping = 0
    exempt = len(node.foreign)
    for allocation in node.allocations:
        state = applications[allocation.ask.app_id].requests[allocation.key].state
        if state in SHOWN_AS_ASKS:
            continue
        if allocation.ask.ask_class.required_node is not None:
            exempt += 1
        else:
            remaining += 1
            stopping += state in _GOING
    return Contents(remaining, stopping, exempt)
