"""Two installations measured in turn, so that what changes on the machine meets both alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from licorne_tools.bench.report import Run
from licorne_tools.bench.spread import Spread


class Side(Enum):
    """Which of the two is measured."""

    THIS = "this"
    OTHER = "other"


def turns(pairs: int) -> Iterator[tuple[int, Side]]:
    """Whose turn it is, with the number of the pair from 1: this, other, other, this, and so on.

    The one that comes first changes with each pair: a machine that becomes slower and slower would
    otherwise cost the second one more in every pair.
    """
    for number in range(1, pairs + 1):
        order = tuple(Side) if number % 2 else tuple(reversed(Side))
        for side in order:
            yield number, side


@dataclass(frozen=True, slots=True)
class Pairs:
    """The runs of both sides, in the order of their pairs."""

    this: list[Run] = field(default_factory=list)
    other: list[Run] = field(default_factory=list)

    def add(self, side: Side, run: Run) -> None:
        """One more run of a side."""
        (self.this if side is Side.THIS else self.other).append(run)

    @property
    def complete(self) -> Sequence[tuple[Run, Run]]:
        """The pairs of which both runs were made."""
        return list(zip(self.this, self.other, strict=False))

    @property
    def measures(self) -> list[str]:
        """What was measured of both."""
        this, other = self.complete[0]
        return [name for name in this if name in other]

    def ratios(self, measure: str) -> list[float]:
        """This one's figure divided by the other's, of each pair that has such a ratio."""
        return [this[measure] / other[measure] for this, other in self.complete if other[measure]]

    def spreads(self, measure: str) -> tuple[Spread, Spread, Spread | None]:
        """Of this one, of the other, and of the pairs' ratios if there is one."""
        this, other = zip(*self.complete, strict=True)
        ratios = self.ratios(measure)
        return (
            Spread.of(run[measure] for run in this),
            Spread.of(run[measure] for run in other),
            Spread.of(ratios) if ratios else None,
        )
