"""Audits of all partitions' books at intervals, in the time slices of readers.

A disagreement is a defect of the core. It goes into the log and the metrics.
"""

import structlog

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices

log = structlog.get_logger("core.audits")

AUDIT_SECONDS = 300.0
"""Seconds between the end of an audit and the next one."""

SHOWN = 3
"""Findings of a partition that the log names, at most."""

PEER = "audits"


class Audits(Periodic):
    """The audits of one server."""

    def __init__(self, views: Views, clock: Clock, time_slices: TimeSlices) -> None:
        """Make no audit yet; `start` begins to wait for the first one."""
        super().__init__("audits", clock, AUDIT_SECONDS)
        self._views = views
        self._time_slices = time_slices
        self.count = 0
        """Audits of all partitions that came to their end."""
        self.findings = 0
        """Disagreements found by the last audit, in all partitions."""

    async def _work(self) -> float:
        await self._audit_all()
        return self._clock.now() + AUDIT_SECONDS

    async def _audit_all(self) -> None:
        """Audit one partition after the other; a failure of one stops no other."""
        found = 0
        for name in self._views.partition_names():
            try:
                found += await self._audit(name)
            except Exception:
                log.exception("audit failed", partition=name)
        self.findings = found
        self.count += 1

    async def _audit(self, name: PartitionName) -> int:
        """Number of disagreements in the books of a partition."""
        try:
            findings = self._views.audit(name)
        except NotFound:  # it went away while others were audited
            return 0
        count = 0
        while True:
            async with self._time_slices.slice(PEER) as is_over:
                for finding in findings:
                    if finding is not None:
                        count += 1
                        if count <= SHOWN:
                            log.error("books disagree", partition=name, finding=finding.text)
                    elif is_over():
                        break
                else:
                    return count
