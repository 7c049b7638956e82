"""Past usage that outlives a partition."""

from collections.abc import Mapping
from typing import NamedTuple

from licorne_core.values.ids import QueuePath


class UsageOwner(NamedTuple):
    """Owner of decayed usage: a queue, or a user in a leaf; `user` is empty for a queue."""

    path: QueuePath
    user: str


class KeptUsage(NamedTuple):
    """Decayed usage of one owner, as retained."""

    half_life: float
    """Half-life in seconds."""
    time: float
    """Time of the following fields, in unix seconds."""
    values: Mapping[str, float]
    """Sums by resource name, in amounts times seconds."""
    amounts: Mapping[str, int]
    """Amounts in use at that time, by resource name."""
    before: Mapping[str, float]
    """Sums at the start of the second that contains `time`."""

    def __bool__(self) -> bool:
        """True if the usage differs from that of a new account."""
        return bool(self.values)
