"""The pending asks of one application by age, and the bonus of the oldest."""

from heapq import heapify, heappop, heappush
from math import inf

from licorne_core.extensions.ageing.terms import Ageing
from licorne_core.model.apps.requests import PENDING, Request
from licorne_core.values.ranking import NO_PRIORITY

_SLACK = 32


class Ages:
    """The pending requests of an application, the oldest first.

    Requests that are not pending any more are dropped when they reach the top.
    """

    __slots__ = ("_heap", "awaited", "bonus", "oldest", "step", "terms", "top")

    def __init__(self, terms: Ageing) -> None:
        """Start without requests."""
        self.terms = terms
        self.bonus = 0
        """Bonus of the oldest request."""
        self.oldest = inf
        """Time at which the oldest request was created, in unix seconds; inf if there is none."""
        self.top = NO_PRIORITY
        """Highest priority of the requests."""
        self.step = inf
        """Time at which the bonus rises next, in unix seconds; inf if it does not rise."""
        self.awaited = inf
        """Time of the next update if no request is added or removed: `step` or earlier."""
        self._heap: list[tuple[float, Request]] = []

    def add(self, request: Request, pending: int) -> None:
        """Add a pending request; `pending` is their new number. The caller calls `follow` afterwards."""
        heappush(self._heap, (request.create_time, request))
        if len(self._heap) > _SLACK + 2 * pending:
            kept = dict.fromkeys([one for _, one in self._heap if one.is_pending])
            self._heap = [(one.create_time, one) for one in kept]
            heapify(self._heap)

    def is_settled(self, top: int, now: float) -> bool:
        """True if `follow` would change nothing, as usual: most requests are not the oldest."""
        heap = self._heap
        return (
            top == self.top
            and now < self.step
            and bool(heap)
            and heap[0][0] == self.oldest
            and heap[0][1].state is PENDING
        )

    def follow(self, top: int, now: float) -> None:
        """Recompute bonus and next step at `now`, in unix seconds; `top` is the highest priority."""
        heap = self._heap
        while heap and not heap[0][1].is_pending:
            heappop(heap)
        oldest = heap[0][0] if heap else inf
        if oldest != self.oldest or now >= self.step:
            self.oldest = oldest
            self.bonus, self.step = self.terms.bonus(oldest, now) if heap else (0, inf)
        self.top = top
