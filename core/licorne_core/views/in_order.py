"""Long lists of names in order, for readers that must not hold up others."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from licorne_core.values.runs import in_runs

Name = TypeVar("Name", bound=str)


class InOrder(Generic[Name]):
    """Names of one moment, sorted as the reader goes on.

    Before the first there is a None wherever the reader may pause.
    """

    count: int
    """Number of names, including those that do not fit."""

    def __init__(self, names: Iterable[Name], fits: Callable[[Name], bool] | None = None) -> None:
        """Take the names that fit, or all."""
        self._names = list(names)
        self._fits = fits
        self.count = len(self._names)

    def __iter__(self) -> Iterator[Name | None]:
        """All of them."""
        return self.behind("")

    def behind(self, last: str) -> Iterator[Name | None]:
        """Names behind a given one, which need not be there."""
        fits = self._fits
        if not last:
            return in_runs(self._names, fits=fits)
        return in_runs(self._names, fits=lambda name: name > last and (fits is None or fits(name)))
