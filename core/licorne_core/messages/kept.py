"""State that extensions retain for a later partition of the same name; it outlives a registration."""

from collections.abc import Mapping
from typing import Any, Final

from licorne_core.values.ids import PartitionName

Kept = Mapping[str, Mapping[Any, Any]]
"""Retained state of one partition: by extension the values of its owners, the oldest first.

A value that is False in a boolean context has nothing to retain."""

KeptByPartition = Mapping[PartitionName, Kept]

MOST_KEPT: Final = 10_000
"""Maximum number of absent owners that are retained per extension; beyond it the oldest are dropped."""

BRIDGED: Final = 600.0
"""Longest time without a server, in seconds, during which usage counts as unchanged."""
