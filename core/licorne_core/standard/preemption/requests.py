"""The asks that may preempt others, and when victims are searched for again (spec § 9.2).

An ask may preempt others when it is old enough, and a queue's maximum or the lack of a node blocks it. A
failed search is repeated after a while, if the books have changed by then.
"""

from math import inf
from typing import ClassVar

from licorne_core.model.apps.groups import SEARCH_INTERVAL, AgedAsks, AskGroup, waits
from licorne_core.model.apps.requests import AskPlace, Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.waiting.shortages import NodesReserved
from licorne_core.standard.preemption.search import SearchRefusal

ANY_VERSION = -1
"""Version that allows a search at any time."""


class PreemptionRequest(AgedAsks):
    """The asks of a group that may preempt others (spec § 9.2).

    After a failed search it is paused for a while. If nodes are reserved for others, it waits for these
    nodes.
    """

    __slots__ = ("is_asking", "refusal", "refused", "searched_at", "searched_for", "waits_for", "waits_until")

    step: ClassVar[int] = 2

    def __init__(self, group: AskGroup, now: float) -> None:
        """Start with all asks of the group."""
        self.searched_at = ANY_VERSION
        """Version of the last failed search: the same search would fail again."""
        self.searched_for: Request | None = None
        """The ask for which this search was made."""
        self.refusal: SearchRefusal | None = None
        """Refusal of the last search; None if the search succeeded."""
        self.refused: dict[Node, None] = {}
        """Nodes refused by the RM since the last search that stopped victims or failed."""
        self.is_asking = False
        """True while the RM is being asked which victims have to be stopped."""
        self.waits_for: NodesReserved | None = None
        """Blocker for the reserved nodes for which it waits; None if it waits for none."""
        self.waits_until = -inf
        """End of that wait, in unix seconds."""
        super().__init__(group, now)

    def age(self) -> float:
        """`preemption.delay` of the leaf, in seconds."""
        delay: float = self.app.leaf.settings.preemption_delay
        return delay

    def qualifies(self, place: AskPlace) -> bool:
        """True if the ask may preempt others, and has not done so before."""
        request = place.request
        return waits(place) and request.ask.allow_preempt_other and not request.triggered

    def is_paused(self, now: float) -> bool:
        """True if it is paused, or while the RM is asked about victims."""
        return self.is_asking or super().is_paused(now)

    def held_until(self, now: float) -> float | None:
        """End of the pause after stops in vain, in unix seconds."""
        in_vain = self.group.refused_stops
        until: float | None = None if in_vain is None or now >= in_vain.until else in_vain.until
        return until

    def is_waiting(self, now: float) -> bool:
        """True while the nodes for which the asks wait are reserved."""
        kept = self.waits_for
        return kept is not None and now < self.waits_until and not kept.lets_through()

    def end_wait(self, now: float) -> bool:
        """End the wait for reserved nodes, if it has lasted long enough; return True in that case."""
        if self.waits_for is None or now < self.waits_until:
            return False
        self.waits_for = None
        return True

    def next_time(self, now: float) -> float | None:
        """Time at which the next ask is old enough, or the wait for reserved nodes ends."""
        maturing = super().next_time(now)
        if self.waits_for is None:
            return maturing
        return self.waits_until if maturing is None else min(maturing, self.waits_until)


def preemption_request_of(group: AskGroup) -> PreemptionRequest | None:
    """The group's request for victims, if it has one."""
    wants = group.remedy_requests.get(PreemptionRequest)
    return wants if isinstance(wants, PreemptionRequest) else None


def pause(escalation: Escalation, wants: PreemptionRequest, now: float) -> None:
    """Pause after a failed or unusable search; the next search ignores earlier refusals."""
    wants.refused.clear()
    wants.waits_for = None
    escalation.pause(wants, now + SEARCH_INTERVAL)


def wait_for(escalation: Escalation, wants: PreemptionRequest, kept: NodesReserved, now: float) -> None:
    """Wait until the reservation of a node with possible victims ends."""
    wants.refused.clear()
    wants.searched_at = ANY_VERSION
    wants.waits_for, wants.waits_until = kept, kept.until
    escalation.set_deadline(wants, wants.next_time(now))


def ask_about_victims(escalation: Escalation, wants: PreemptionRequest) -> None:
    """Suspend searches while the RM is asked about victims."""
    wants.is_asking = True
    wants.waits_for = None
    escalation.withdraw(wants)
