"""What partitions keep for those of their names that come later: it outlives a registration."""

from collections.abc import Mapping
from typing import Any, Final

from licorne_core.values.ids import PartitionName

Kept = Mapping[str, Mapping[Any, Any]]
"""Of one partition: by the names of its extensions what each keeps, by owners, the oldest first.

What is false by itself is of no use to a later partition."""

KeptByPartition = Mapping[PartitionName, Kept]

MOST_KEPT: Final = 10_000
"""Owners that are not there, of one extension: beyond these the oldest are forgotten."""

BRIDGED: Final = 600.0
"""Longest time without a server, in seconds, for which usage counts as unchanged."""
