"""Bounds of RMs, each and all together, and of the time that they are retained.

Also here:

* Bounds of the outbox of one RM.
"""

import math
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from licorne_core.values.rm_caps import RmCaps
from licorne_server.wire.caps import MAX_RMS

RESERVED_PART = 8
"""Part of the places of RMs, as a divisor, that is reserved for RMs of other peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBounds:
    """Bounds of the events of one RM, in addition to those of its own configuration."""

    seconds: float = 10.0
    """Seconds for which events are retained for readers, at any number; 0 for not at all."""
    memory: int = 512 * 1024**2
    """Estimated bytes beyond which the oldest go, however young and however few they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmBounds:
    """Settings of `serve` about RMs."""

    number: int = MAX_RMS
    """Number of RMs, at most."""
    each: RmCaps = field(default_factory=RmCaps)
    """Caps of one of them."""
    events: EventBounds = EventBounds()
    """Bounds of the events of each."""
    memory: int = 0
    """Bytes of resident memory above which the process takes no new work; 0 for any number."""
    plan_pause: float = 0.05
    """Longest pause of the process for one plan, in seconds; 0 for any, without a charge. The
    default is the longest that one RM should wait for another."""
    forget_after: float = 3600.0
    """Seconds without a stream and without running allocations after which an RM is forgotten;
    0 for never."""

    @property
    def share(self) -> int:
        """Number of RMs that one peer may have registered."""
        return self.number - self.number // RESERVED_PART

    def problem(self) -> str:
        """The problem with them, in the words of the options of `serve`; empty for none."""
        least = {"--max-rms": self.number}
        least |= {_option(cap.name): getattr(self.each, cap.name) for cap in fields(self.each)}
        for option, value in least.items():
            if value < 1:
                return f"{option} must be 1 or more: {value}"
        if not (math.isfinite(self.events.seconds) and self.events.seconds >= 0):
            return f"--event-seconds must be a number of seconds from 0 up: {self.events.seconds}"
        if self.events.memory < 1:
            return f"--event-memory must be 1 or more: {self.events.memory}"
        if self.memory < 0:
            return f"--max-memory must be 0 or more: {self.memory}"
        if not (math.isfinite(self.plan_pause) and self.plan_pause >= 0):
            return f"--max-plan-pause must be a number of seconds from 0 up: {self.plan_pause}"
        if not (math.isfinite(self.forget_after) and self.forget_after >= 0):
            return f"--forget-after must be a number of seconds from 0 up: {self.forget_after}"
        return ""


def _option(cap: str) -> str:
    return "--max-rm-memory" if cap == "memory" else f"--max-{cap.replace('_', '-')}"


class OutboxBounds(NamedTuple):
    """Sizes of an outbox, in bytes, at which something happens."""

    high: int = 8 * 1024 * 1024
    """Above it the RM is not scheduled."""
    low: int = 2 * 1024 * 1024
    """Below it the RM is scheduled again."""
    cap: int = 64 * 1024 * 1024
    """Above it all messages are dropped, and the RM has to register again."""
