"""What a scheduler is told once, when it is made."""

from dataclasses import dataclass, field

from licorne_core.config.schema import Configuration
from licorne_core.rm_caps import RmCaps
from licorne_core.tuning import Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`default_config` is for RMs that register without one; None for the built-in one.

    Without `reservations` no node is ever kept free for an ask (spec § 2.8).
    """

    default_config: Configuration | None = None
    reservations: bool = True
    tuning: Tuning = field(default_factory=Tuning)
    rm_caps: RmCaps = field(default_factory=RmCaps)
