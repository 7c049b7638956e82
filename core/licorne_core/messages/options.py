"""Options of a scheduler, set at its creation."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from licorne_core.config.schema import Configuration
from licorne_core.values.rm_caps import RmCaps
from licorne_core.values.tuning import Tuning

_DOUBLINGS: Final = 64
"""Beyond so many the first back-off, however short, has become longer than any longest one."""


class AskBackoff(NamedTuple):
    """Wait of an ask that its RM could not run, in seconds.

    After the first failure it is `first`, after each one more twice as long, up to `most`.
    """

    first: float = 1.0
    most: float = 60.0

    def after(self, failures: int) -> float:
        """The back-off after so many failures in a row, from 1 up."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, _DOUBLINGS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`default_config` is for RMs that register without one; None for the built-in one.

    Without `reservations` no node is ever kept free for an ask (spec § 2.8).
    """

    default_config: Configuration | None = None
    reservations: bool = True
    ask_backoff: AskBackoff = AskBackoff()
    tuning: Tuning = field(default_factory=Tuning)
    rm_caps: RmCaps = field(default_factory=RmCaps)
