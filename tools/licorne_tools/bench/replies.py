"""What an RM of a benchmark sends because of what it hears: asks, and confirmations of releases."""

from collections.abc import Iterable

from licorne.si.v1.si_pb2 import (
    Allocation,
    AllocationRelease,
    AllocationReleasesRequest,
    AllocationRequest,
    TerminationType,
)
from licorne_tools.bench.driver import Rm
from licorne_tools.bench.workload import batched


class Replies:
    """Sends them, at most `batch` items in a message, and counts the messages."""

    def __init__(self, rm: Rm, batch: int) -> None:
        """Nothing is sent yet."""
        self._rm = rm
        self._batch = batch
        self.requests = 0
        self.confirmations = 0

    async def ask(self, asks: Iterable[Allocation]) -> None:
        """Send asks."""
        for some in batched(asks, self._batch):
            await self._send(AllocationRequest(rmID=self._rm.rm_id, allocations=some))

    async def confirm(self, released: Iterable[AllocationRelease], why: TerminationType.ValueType) -> int:
        """Confirm the releases that the RM was told to carry out for this reason; how many."""
        confirmed = 0
        for some in batched((item for item in released if item.terminationType == why), self._batch):
            releases = AllocationReleasesRequest(
                allocationsToRelease=[
                    AllocationRelease(
                        applicationID=item.applicationID,
                        allocationKey=item.allocationKey,
                        terminationType=why,
                    )
                    for item in some
                ]
            )
            await self._send(AllocationRequest(rmID=self._rm.rm_id, releases=releases))
            confirmed += len(some)
        self.confirmations += confirmed
        return confirmed

    async def _send(self, request: AllocationRequest) -> None:
        self.requests += 1
        await self._rm.write(request.SerializeToString())
