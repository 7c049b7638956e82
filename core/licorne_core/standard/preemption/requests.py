"""The asks that may preempt others, and when victims are searched for again (spec § 9.2).

An ask may preempt others when it is old enough, and a queue's maximum or the lack of a node blocks it. A
failed search is repeated after a while, if the books have changed by then. It is in vain for equal asks of no
higher priority as well, which wait with it; an ask of a higher priority may have other victims (law 6).
"""

from heapq import heappop, heappush
from math import inf
from typing import ClassVar

from licorne_core.model.apps.groups import MATURED_AT_ONCE, SEARCH_INTERVAL, AgedAsks, AskGroup, waits
from licorne_core.model.apps.requests import AskPlace, Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.waiting.shortages import NodesReserved
from licorne_core.standard.preemption.search import SearchRefusal
from licorne_core.values.ranking import NO_PRIORITY

ANY_VERSION = -1
"""Version that allows a search at any time."""


class PreemptionRequest(AgedAsks):
    """The asks of a group that may preempt others (spec § 9.2).

    After a failed search it is paused for a while. If nodes are reserved for others, it waits for these
    nodes. Neither concerns asks of a higher priority than that of the search.
    """

    __slots__ = (
        "is_asking",
        "refusal",
        "refused",
        "searched_at",
        "searched_for",
        "searched_priority",
        "waits_for",
        "waits_until",
    )

    step: ClassVar[int] = 2

    def __init__(self, group: AskGroup, now: float) -> None:
        """Start with all asks of the group."""
        self.searched_at = ANY_VERSION
        """Version of the last failed search: the same search would fail again."""
        self.searched_for: Request | None = None
        """The ask of the last failed search."""
        self.searched_priority = NO_PRIORITY
        """Its priority then: the highest for which the pause or wait holds."""
        self.refusal: SearchRefusal | None = None
        """Refusal of this search; None if it found victims that could not be stopped."""
        self.refused: dict[Node, int] = {}
        """Nodes refused by the RM since the last search that stopped victims or failed.

        Each has the priority of the refused ask: one of a higher priority may offer more victims.
        """
        self.is_asking = False
        """True while the RM is being asked which victims have to be stopped."""
        self.waits_for: NodesReserved | None = None
        """Blocker for the reserved nodes for which it waits; None if it waits for none."""
        self.waits_until = -inf
        """End of the wait for reserved nodes, in unix seconds."""
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
        """True while the RM is asked about victims."""
        return self.is_asking

    def held_until(self, now: float) -> float | None:
        """End of the pause after a failed search, or after victims were stopped in vain, in unix seconds."""
        in_vain, first = self.group.refused_stops, self.first()
        until: float = -inf if in_vain is None else in_vain.until
        if first is None or self.concerns(first.request):
            until = max(until, self.paused_until)
        return until if now < until else None

    def cut_pause(self, now: float) -> None:
        """End the pause early, in favour of a wait; asks that it held may be too young."""
        if now < self.paused_until:
            self.paused_until = -inf
            self._fill(now)

    def concerns(self, request: Request) -> bool:
        """True if the last failed search is in vain for the ask as well."""
        return request.priority <= self.searched_priority

    def holds(self, request: Request, now: float) -> bool:
        """True while no victims are searched for an ask of the kind: after a search, or during a question."""
        paused = now < self.paused_until and self.concerns(request)
        return self.is_asking or paused or self.is_waiting(request, now)

    def is_waiting(self, request: Request, now: float) -> bool:
        """True while the nodes for which the ask waits are reserved."""
        kept = self.waits_for
        waits = kept is not None and now < self.waits_until and self.concerns(request)
        return waits and kept is not None and not kept.lets_through()

    def end_wait(self, now: float) -> bool:
        """End the wait for reserved nodes, if it has lasted long enough; return True in that case."""
        if self.waits_for is None or now < self.waits_until:
            return False
        self.waits_for = None
        return True

    def next_time(self, now: float) -> float | None:
        """Time at which the next ask is old enough, or the wait for reserved nodes ends.

        Asks that become old enough during a pause that holds them are made ready at once: each would have a
        deadline with no effect.
        """
        young = self._young
        for _ in range(MATURED_AT_ONCE):
            is_held = young and young[0][0] + self._age <= self.paused_until
            if not is_held or not self.concerns(young[0][1].request):
                break
            heappush(self._ready, heappop(young)[1])
        maturing = super().next_time(now)
        if self.waits_for is None:
            return maturing
        return self.waits_until if maturing is None else min(maturing, self.waits_until)


def preemption_request_of(group: AskGroup) -> PreemptionRequest | None:
    """The group's request for victims, if it has one."""
    wants = group.remedy_requests.get(PreemptionRequest)
    return wants if isinstance(wants, PreemptionRequest) else None


def pause(escalation: Escalation, wants: PreemptionRequest, request: Request, now: float) -> None:
    """Pause after a failed or unusable search for the ask; the next search ignores the RM's refusals."""
    _note_search(wants, request, None)
    wants.waits_for, wants.paused_until = None, now + SEARCH_INTERVAL
    escalation.rank(wants, now)


def wait_for(
    escalation: Escalation, wants: PreemptionRequest, request: Request, kept: NodesReserved, now: float
) -> None:
    """Let the ask wait until the reservation of a node with possible victims ends."""
    assert isinstance(kept.refusal, SearchRefusal), "the wait was noted by a search"
    _note_search(wants, request, kept.refusal)
    wants.cut_pause(now)
    wants.waits_for, wants.waits_until = kept, kept.until
    escalation.set_deadline(wants, wants.next_time(now))


def _note_search(wants: PreemptionRequest, request: Request, refusal: SearchRefusal | None) -> None:
    wants.refused.clear()
    wants.searched_for, wants.searched_priority = request, request.priority
    wants.refusal, wants.searched_at = refusal, ANY_VERSION


def ask_about_victims(escalation: Escalation, wants: PreemptionRequest) -> None:
    """Suspend searches while the RM is asked about victims."""
    wants.is_asking = True
    wants.waits_for = None
    escalation.withdraw(wants)
