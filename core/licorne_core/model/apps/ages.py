"""The pending asks of one application by age, and the bonus of the oldest, where its leaf has ageing."""

from heapq import heapify, heappop, heappush
from math import inf

from licorne_core.model.apps.requests import Request
from licorne_core.values.ageing import Ageing
from licorne_core.values.ranking import NO_PRIORITY, clamp_priority

_SLACK = 32


class Ages:
    """The pending requests of an application, the oldest first.

    Requests that are not pending any more are forgotten when they come to the top.
    """

    __slots__ = ("_heap", "bonus", "priority", "terms")

    def __init__(self, terms: Ageing) -> None:
        """Start without requests."""
        self.terms = terms
        self.bonus = 0
        """What the oldest request adds to the priority."""
        self.priority = NO_PRIORITY
        """The priority with the bonus, which the leaf counts beside those of the asks. NO_PRIORITY, and
        not counted, without a bonus."""
        self._heap: list[tuple[float, Request]] = []

    def add(self, request: Request, pending: int) -> None:
        """Add a pending request; so many are pending with it."""
        heappush(self._heap, (request.create_time, request))
        if len(self._heap) > _SLACK + 2 * pending:
            kept = dict.fromkeys([one for _, one in self._heap if one.is_pending])
            self._heap = [(one.create_time, one) for one in kept]
            heapify(self._heap)

    def oldest(self) -> float | None:
        """Time at which the oldest pending ask came, in unix seconds; None for none."""
        heap = self._heap
        while heap and not heap[0][1].is_pending:
            heappop(heap)
        return heap[0][0] if heap else None

    def follow(self, top: int, now: float) -> float:
        """Derive bonus and priority anew; return the time of the next step, inf for none.

        `top` is the highest priority of the pending requests.
        """
        created = self.oldest()
        if created is None:
            self.bonus, self.priority = 0, NO_PRIORITY
            return inf
        self.bonus, at = self.terms.bonus(created, now)
        self.priority = clamp_priority(top + self.bonus) if self.bonus else NO_PRIORITY
        return at
