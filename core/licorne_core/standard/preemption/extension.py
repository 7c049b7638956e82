"""Preemption in one partition: its searches, and the losses of its leaves."""

from collections.abc import Mapping
from typing import Final

from licorne_core.config.schema import PartitionConfig
from licorne_core.model.apps.application import Application
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.preemption.losses import Losses
from licorne_core.standard.preemption.remedy import Preempting
from licorne_core.standard.preemption.requests import PreemptionRequest
from licorne_core.standard.preemption.search import PreemptionSearch
from licorne_core.values.ids import AppId

NAME: Final = "preemption"


class Preemption(Extension):
    """Searches for victims as a remedy, and records the losses of leaves by victims."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without searches and losses."""
        super().__init__(name, bit, context)
        self.losses = Losses()
        self.search = PreemptionSearch(
            context.tree.root,
            context.node_book,
            context.applications,
            context.wakeups.reserved,
            self.losses,
            context.tally.in_units,
            part=max(1, context.tuning.fill_work // 4),
            dirty=context.dirty,
        )
        context.effort.count(self.search)
        self.remedy = Preempting(context, self.search)
        self.remedies = {PreemptionRequest: self.remedy}

    def configure(self, config: PartitionConfig) -> None:
        """Switch preemption on or off, as configured."""
        self.remedy.enabled = config.preemption_enabled
        self.search.delaying = self.context.delaying

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Compare the caches of searches with the books."""
        self.search.check()


def preemption_of(context: CheckContext) -> Preemption:
    """Preemption in the partition of the context."""
    found = context.extensions[NAME]
    assert isinstance(found, Preemption), "every partition has it"
    return found


KIND: Final = Preemption
