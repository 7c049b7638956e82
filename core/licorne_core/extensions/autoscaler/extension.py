"""The scans of one partition for asks that wait for a larger cluster."""

from typing import Final

from licorne_core.extensions.autoscaler import NAME
from licorne_core.extensions.autoscaler import scan as scanning
from licorne_core.extensions.autoscaler.messages import ContainerStatesChanged
from licorne_core.extensions.autoscaler.scan import Inspection
from licorne_core.handlers.clock import settle_order
from licorne_core.handlers.outcome import Firing
from licorne_core.partitions.jobs import Slice
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.predicates.extension import judged_of
from licorne_core.values.timers import Due, Timer

TIMER: Final = Timer(Due.EXTENSION, name=NAME)


class Autoscaler(Extension):
    """The current scan, if any. While asks wait, the partition has a timer for the next scan."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without a scan."""
        super().__init__(name, bit, context)
        self._inspection: Inspection | None = None

    def idle(self, now: float) -> None:
        """Schedule a scan, if none is scheduled yet."""
        if TIMER not in self.timers:
            self.timers.set(TIMER, now + self.context.tuning.inspection_time)

    def inspect(self, firing: Firing) -> None:
        """Execute one step of the scan; the next step follows in the next tick.

        An ask that is found counts as reported even if the RM does not request reports, because the views
        show it.
        """
        partition, now = firing.partition, firing.now
        if partition.holds:
            self._inspection = None
            self.idle(now)
            return
        scan = self._inspection
        if scan is None:
            settle_order(partition, now)
            scan = self._inspection = Inspection(partition.tree.root, judged_of(partition).results, now)
        if scan.go_on(now, Slice(scanning.PART)):
            self._inspection = None
        else:
            firing.again.append(TIMER)
        states, scan.states = scan.states, []
        if states and partition.rm.container_states:
            told = ContainerStatesChanged(rm_id=partition.rm_id, partition=partition.name, states=states)
            firing.said.append(told)


KIND: Final = Autoscaler
