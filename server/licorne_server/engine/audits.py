"""Audits of all partitions' books at intervals, in the time slices of readers.

A disagreement is a defect of the core. It is logged and counted in the metrics.
"""

import asyncio
from collections import defaultdict

import structlog

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views import Concern, Views
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices

log = structlog.get_logger("core.audits")

AUDIT_SECONDS = 300.0
"""Seconds between the end of an audit and the start of the next."""

SHOWN = 10
"""Maximum number of disagreements of one concern that are named for a partition."""

LOGGED = 3
"""Maximum number of disagreements of a partition that are logged."""

PEER = "audits"


class Audits(Periodic):
    """The audits of one server."""

    def __init__(self, views: Views, clock: Clock, time_slices: TimeSlices) -> None:
        """Create the audits; the first one is due some time after `start`."""
        super().__init__("audits", clock, AUDIT_SECONDS)
        self._views = views
        self._time_slices = time_slices
        self._lock = asyncio.Lock()
        self.count = 0
        """Completed audits of all partitions."""
        self.findings = 0
        """Disagreements found by the last audit, in all partitions."""
        self.found: dict[tuple[PartitionName, Concern], str] = {}
        """Text of the findings of the last audit, by partition and concern."""

    async def _work(self) -> float:
        await self.audit()
        return self._clock.now() + AUDIT_SECONDS

    async def audit(self, rm_id: RmId | None = None) -> None:
        """Audit all partitions, or those of one RM, one by one; a failure of one does not stop the others."""
        async with self._lock:
            names, found, count = self._views.partition_names(rm_id), dict(self.found), 0
            there = set(self._views.partition_names())
            for key in [key for key in found if key[0] in names or key[0] not in there]:
                del found[key]
            for name in names:
                try:
                    texts = await self._audit(name)
                except Exception:
                    log.exception("audit failed", partition=name)
                    continue
                count += sum(map(len, texts.values()))
                found |= {(name, concern): _in_words(of_one) for concern, of_one in texts.items()}
            self.found = found
            if rm_id is None:
                self.findings = count
                self.count += 1

    async def _audit(self, name: PartitionName) -> dict[Concern, list[str]]:
        """The disagreements in the books of a partition, by concern."""
        texts = defaultdict[Concern, list[str]](list)
        try:
            findings = self._views.audit(name)
        except NotFound:  # it was removed while others were audited
            return texts
        count = 0
        while True:
            async with self._time_slices.slice(PEER) as is_over:
                for finding in findings:
                    if finding is not None:
                        count += 1
                        texts[finding.concern].append(finding.text)
                        if count <= LOGGED:
                            log.error("books disagree", partition=name, finding=finding.text)
                    elif is_over():
                        break
                else:
                    return texts


def _in_words(texts: list[str]) -> str:
    more = len(texts) - SHOWN
    return "; ".join([*texts[:SHOWN], f"and {more:,} more"] if more > 0 else texts)
