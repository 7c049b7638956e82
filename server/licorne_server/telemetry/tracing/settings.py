"""Settings of traces: their sampling and their collector."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

USUAL_SAMPLE = 0.01
"""Default share of traced work without a sampling decision of a caller."""

PATH = "/v1/traces"
"""Path of a collector for spans, below its own address."""

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """A server with these makes traces."""

    endpoint: str = ""
    """The address of a collector that takes OTLP over HTTP, such as ``http://collector:4318``."""
    sample: float = USUAL_SAMPLE
    """The share of asks and turns that is traced, from 0 to 1. A caller's own decision goes first.
    """
    named_by: str = "--otlp-endpoint"
    """The option or variable that names the endpoint."""
    exporter: "SpanExporter | None" = None
    """Gets every span at once when it has ended, in place of a collector; for tests."""

    @property
    def url(self) -> str:
        """Full URL of the collector."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(PATH) else base + PATH

    def problem(self) -> str:
        """The problem with the settings, and its remedy; empty for none."""
        if not 0 <= self.sample <= 1:
            return f"--trace-sample must be a number from 0 to 1: {self.sample}"
        if not _installed():
            return (
                f"{self.named_by} needs OpenTelemetry, which is not installed: "
                "pip install 'licorne-server[otel]'"
            )
        if self.exporter is None and not _is_address(self.endpoint):
            return (
                f"{self.named_by}: the http or https address of a collector was expected, such as "
                f"http://127.0.0.1:4318: {self.endpoint!r}"
            )
        return ""


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        return False
    return usable and text.isprintable() and not parts.query and not parts.fragment


def _installed() -> bool:
    """True if the extra is installed; nothing of the SDK is run for that."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False
