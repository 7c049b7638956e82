"""Parts of tracing that do not need OpenTelemetry: counts, handling of defects, and the start.

A defect ends the traces and nothing else. OpenTelemetry is loaded only if the settings have a
collector.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

import structlog

from licorne_core.views import Views
from licorne_server.process.build_info import BuildInfo
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import TraceSettings

if TYPE_CHECKING:
    from licorne_server.telemetry.tracing.tracing import Tracing


def tracing_of(
    settings: TraceSettings | None,
    build: BuildInfo,
    clock: Clock,
    time_slices: TimeSlices,
    views: Views,
) -> "Tracing | None":
    """Tracing of a server; None without settings for it: then OpenTelemetry is not loaded."""
    if settings is None:
        return None
    from licorne_server.telemetry.tracing.tracing import Tracing

    return Tracing(settings, build.version, clock, time_slices, views.standing)


TOO_MANY_ASKS = "too_many_asks"
"""Too many asks are followed already."""
QUEUE_FULL = "queue_full"
"""Too many ended spans wait for export."""
EXPORT_FAILED = "export_failed"
"""The collector did not accept the span."""
SHUTDOWN = "shutdown"
"""The server stopped before the export."""

REASONS = (TOO_MANY_ASKS, QUEUE_FULL, EXPORT_FAILED, SHUTDOWN)
"""Reasons for dropping a span."""


@dataclass(slots=True)
class TraceCounts:
    """Counts since the start of the server. Each number is changed by one thread only."""

    exported: int = 0
    """Number of spans that the collector has accepted."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of dropped spans, by reason."""
    malformed: int = 0
    """Number of malformed trace contexts that were received."""
    followed: int = 0
    """Number of asks with open spans."""


class Defects:
    """The first defect of a server's traces, which ends them."""

    failed: bool

    def __init__(self, tell: Callable[[], None]) -> None:
        """Start without a defect. `tell` is called while the exception of a defect is handled."""
        self.failed = False
        self._tell = tell

    def fail(self) -> None:
        """End the traces, and report the first defect, which is the exception being handled."""
        if not self.failed:
            self.failed = True
            self._tell()


class Guarded(Protocol):
    """A class with `harmless` methods."""

    defects: Defects


G = TypeVar("G", bound=Guarded)
P = ParamSpec("P")
R = TypeVar("R")


def harmless(work: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R | None]:
    """Decorate a method, so that an exception is reported, ends the traces, and makes it return None."""

    @wraps(work)
    def guarded(one: G, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if not one.defects.failed:
            try:
                return work(one, *args, **kwargs)
            except Exception:
                one.defects.fail()
        return None

    return guarded


log = structlog.get_logger("core.tracing.malformed")

TELL_SECONDS = 60.0
"""Minimum seconds between two log lines."""


class MalformedLog:
    """Logs the number of malformed trace contexts."""

    def __init__(self, counts: TraceCounts, now: Callable[[], float]) -> None:
        """`now` returns unix seconds."""
        self._counts = counts
        self._now = now
        self._from = 0.0
        self._told = 0

    def tell(self) -> None:
        """Log the number of new malformed contexts, at intervals."""
        malformed = self._counts.malformed
        if malformed > self._told and self._now() >= self._from:
            self._from = self._now() + TELL_SECONDS
            log.warning("trace contexts that cannot be read", number=malformed - self._told)
            self._told = malformed
