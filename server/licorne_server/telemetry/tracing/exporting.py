"""Export of ended spans from a separate thread.

It replaces the SDK's batch processor, for three reasons. The batch processor starts a thread in
every fork, and copies of the process must have none (`engine/copied_process.py`). It takes up to
half a minute to stop. It logs dropped spans one by one, without a count.
"""

import asyncio
import logging
import threading
from collections import deque
from contextlib import suppress
from time import monotonic

import structlog
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from licorne_server.telemetry.tracing.spans import RM_ID
from licorne_server.telemetry.tracing.starting import EXPORT_FAILED, QUEUE_FULL, SHUTDOWN, TraceCounts

log = structlog.get_logger("core.tracing.exporting")

MAX_WAITING = 8192
"""Spans that may wait for export."""

MAX_OF_RM = MAX_WAITING // 2
"""Spans of one RM that may wait, so that room is left for other RMs."""

BATCH = 512
"""Spans in one batch, at most."""

BATCH_SECONDS = 2.0
"""Seconds after which a smaller batch is sent."""

FLUSH_SECONDS = 3.0
"""Seconds for sending the queue when the server stops."""

TELL_SECONDS = 60.0
"""Seconds between two log lines about failures, at least."""

_LIBRARY = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
"""Logger of the exporter, which writes with every try."""


class Exporting(SpanProcessor):
    """Passes spans to an exporter in batches."""

    def __init__(self, exporter: SpanExporter, counts: TraceCounts) -> None:
        """Queue ended spans; `start` begins to send them."""
        self._exporter = exporter
        self._counts = counts
        # Held while a span is queued or a batch is taken, never during an export.
        self._lock = threading.Lock()
        self._waiting: deque[ReadableSpan] = deque()
        # Queued spans by RM, without zeros.
        self._of_rm: dict[object, int] = {}
        self._wake = threading.Event()
        self._stopping = self._abandoned = False
        self._on_end: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._told = -TELL_SECONDS
        self._overheard = _Overheard()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        logging.getLogger(_LIBRARY).addFilter(self._overheard)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span, or drop and count it if too many wait."""
        rm_id = _rm_id(span)
        with self._lock:
            of_rm = self._of_rm.get(rm_id, 0)
            if len(self._waiting) >= MAX_WAITING or of_rm >= MAX_OF_RM:
                self._counts.dropped[QUEUE_FULL] += 1
                return
            self._waiting.append(span)
            if rm_id is not None:
                self._of_rm[rm_id] = of_rm + 1
        if len(self._waiting) == BATCH:
            self._wake.set()

    async def stop(self, seconds: float = FLUSH_SECONDS) -> None:
        """Send the queue, for at most `seconds`."""
        if self._thread is not None:
            done = asyncio.Event()
            self._on_end = (asyncio.get_running_loop(), done)
            self._stopping = True
            self._wake.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), seconds)
        self._abandoned = True
        # Ends a pause between two tries.
        self._exporter.shutdown()
        logging.getLogger(_LIBRARY).removeFilter(self._overheard)
        self._counts.dropped[SHUTDOWN] += len(self._waiting)

    def _run(self) -> None:
        while True:
            self._wake.wait(BATCH_SECONDS)
            self._wake.clear()
            while not self._abandoned and (batch := self._take()):
                self._send(batch)
            if self._stopping:
                break
        if self._on_end is not None:
            loop, done = self._on_end
            with suppress(RuntimeError):  # the wait timed out, and the loop is gone
                loop.call_soon_threadsafe(done.set)

    def _take(self) -> list[ReadableSpan]:
        """The next batch, in order of arrival; empty if the queue is."""
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            for span in batch:
                rm_id = _rm_id(span)
                if rm_id is not None:
                    self._of_rm[rm_id] -= 1
                    if not self._of_rm[rm_id]:
                        del self._of_rm[rm_id]
        return batch

    def _send(self, batch: list[ReadableSpan]) -> None:
        self._overheard.said = ""
        try:
            taken = self._exporter.export(batch) is SpanExportResult.SUCCESS
            reason = self._overheard.said
        except Exception as error:
            taken, reason = False, repr(error)
        if taken:
            self._counts.exported += len(batch)
            return
        self._counts.dropped[EXPORT_FAILED] += len(batch)
        if monotonic() - self._told >= TELL_SECONDS:
            self._told = monotonic()
            dropped = self._counts.dropped[EXPORT_FAILED]
            log.warning("spans not taken by the collector", reason=reason, dropped=dropped)


def _rm_id(span: ReadableSpan) -> object:
    """The RM of a span; None for one of the server."""
    return (span.attributes or {}).get(RM_ID)


class _Overheard(logging.Filter):
    """Collects log messages of the exporter, for one line of the server's log."""

    said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Suppress the record."""
        self.said = record.getMessage()
        return False
