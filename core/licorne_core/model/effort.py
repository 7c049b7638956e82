"""The work of a turn, counted in tries: each try of an ask, a reserved ask or an application is one."""

from typing import Final

COMPARISONS_OF_A_TRY: Final = 10
"""Number of comparisons of a node with an ask that cost as much as one try of an ask."""


class Search:
    """A search whose work is included in that of the turn."""

    __slots__ = ("of_a_try", "work")

    def __init__(self, of_a_try: int) -> None:
        """`of_a_try` units of its work cost as much as one try of an ask."""
        self.of_a_try = of_a_try
        self.work = 0
        """Work so far, in the units of the search."""


class Effort:
    """Cost of the turns of one partition, and the remaining budget of the current turn."""

    __slots__ = ("_limit", "_searches", "now", "tired", "tried")

    def __init__(self) -> None:
        """Start without turns."""
        self._searches: tuple[Search, ...] = ()
        self._limit = 0
        self.now = 0.0
        """Time at which the last turn began, in unix seconds; 0 before the first turn."""
        self.tired = False
        """True if the turn has used up its work while items were left to try."""
        self.tried = 0
        """Number of groups, applications and items of stages tried so far."""

    def count(self, *searches: Search) -> None:
        """Include the work of these searches."""
        self._searches += searches

    def forget(self) -> None:
        """Drop the searches of a removed partition."""
        self._searches = ()

    def begin(self, now: float, work: int) -> None:
        """Begin a turn at `now`, in unix seconds, with a budget of about `work` tries."""
        self.now = now
        self.tired = False
        self._limit = self.cost + work

    @property
    def cost(self) -> int:
        """Work of all turns so far, in tries."""
        cost = self.tried
        for search in self._searches:
            cost += search.work // search.of_a_try
        return cost

    def is_spent(self) -> bool:
        """True, after setting `tired`, if the turn has used up its work; otherwise count another try."""
        # The hot path: `cost` is written out here.
        cost = self.tried
        for search in self._searches:
            cost += search.work // search.of_a_try
        if cost >= self._limit:
            self.tired = True
            return True
        self.tried += 1
        return False
