"""gRPC calls by method and status, under the names of common gRPC dashboards."""

from collections import Counter
from typing import NamedTuple

from licorne_server.telemetry.measures.histogram import WAITS, Histogram


class Method(NamedTuple):
    """A method that is served; there are as many as there are handlers."""

    service: str
    name: str
    type: str
    """``unary``, or ``bidi_stream`` or ``server_stream``."""

    @classmethod
    def of(cls, path: str, type: str) -> "Method":
        """From the path of a call, ``/package.Service/Name``."""
        service, _, name = path.removeprefix("/").rpartition("/")
        return cls(service, name, type)


class Calls:
    """Counts calls; a stream is one call, however long it is."""

    def __init__(self) -> None:
        """Start without calls."""
        self.started: Counter[Method] = Counter()
        self.handled: Counter[tuple[Method, str]] = Counter()
        """Calls that are over, by the name of their status."""
        self.seconds: dict[Method, Histogram] = {}
        """Durations of unary calls."""

    def begin(self, method: Method) -> None:
        """Count the begin of a call."""
        self.started[method] += 1

    def end(self, method: Method, code: str, seconds: float) -> None:
        """A call is over, with the status of that name."""
        self.handled[method, code] += 1
        if method.type == "unary":
            histogram = self.seconds.get(method)
            if histogram is None:
                histogram = self.seconds[method] = Histogram(WAITS)
            histogram.observe(seconds)
