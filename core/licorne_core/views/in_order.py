"""Long lists of names in order, for readers who must not hold up others."""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=str)

RUN = 500
"""Names that are looked at and put in order in one go."""


class InOrder(Generic[Name]):
    """Names of one moment, which are put in order as somebody walks through.

    Before the first there is a None wherever the reader may pause.
    """

    count: int
    """How many names there are, those among them that do not fit."""

    def __init__(self, names: Iterable[Name], fits: Callable[[Name], bool] | None = None) -> None:
        """Those that fit, or all."""
        self._names = list(names)
        self._fits = fits
        self.count = len(self._names)

    def __iter__(self) -> Iterator[Name | None]:
        """All of them."""
        return self.behind("")

    def behind(self, last: str) -> Iterator[Name | None]:
        """Those behind a name, which need not be there."""
        runs: list[list[Name]] = []
        for start in range(0, self.count, RUN):
            part = self._names[start : start + RUN]
            if last:
                part = [name for name in part if name > last]
            runs.append(sorted(part if self._fits is None else filter(self._fits, part)))
            yield None
        yield from merge(*runs)
