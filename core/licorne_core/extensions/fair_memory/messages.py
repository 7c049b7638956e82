"""What was used, as far as it outlives a partition."""

from collections.abc import Mapping
from typing import NamedTuple

from licorne_core.values.ids import QueuePath


class UsageOwner(NamedTuple):
    """Whose usage decays: a queue's, or that of a user in a leaf; `user` is empty for a queue."""

    path: QueuePath
    user: str


class KeptUsage(NamedTuple):
    """Decayed usage of one owner."""

    half_life: float
    """In seconds."""
    time: float
    """Time of all that follows, in unix seconds."""
    values: Mapping[str, float]
    """Sums by resource name, in amounts times seconds."""
    amounts: Mapping[str, int]
    """What was in use."""
    before: Mapping[str, float]
    """Sums of the whole second that `time` is in."""

    def __bool__(self) -> bool:
        """True if it says more than an account without usage."""
        return bool(self.values)
