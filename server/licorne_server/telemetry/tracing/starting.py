"""Start of traces, if the settings have a collector."""

from typing import TYPE_CHECKING

from licorne_core.views import Views
from licorne_server.fair import TimeSlices
from licorne_server.process.build_info import BuildInfo
from licorne_server.process.clock import Clock
from licorne_server.telemetry.tracing.settings import TraceSettings

if TYPE_CHECKING:
    from licorne_server.telemetry.tracing.tracing import Tracing


def tracing_of(
    settings: TraceSettings | None,
    build: BuildInfo,
    clock: Clock,
    time_slices: TimeSlices,
    views: Views,
) -> "Tracing | None":
    """The tracing of a server; None without settings, and OpenTelemetry is not loaded then."""
    if settings is None:
        return None
    from licorne_server.telemetry.tracing.tracing import Tracing

    return Tracing(settings, build.version, clock, time_slices, views.standing)
