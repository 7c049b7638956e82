"""The seeds of the random worlds of a property, in parts for several processes."""

from itertools import pairwise

PART = 50
"""The default number of worlds in a part."""


def positive(text: str) -> int:
    """A positive number of worlds; raises ValueError for others."""
    count = int(text)
    if count < 1:
        raise ValueError(f"at least one world must be played, not {text}")
    return count


def parts(
    worlds: int, after: int = 0, *, first: int = 0, one_in: int = 1, times: int = 1, size: int = PART
) -> list[range]:
    """The seeds from `first` on, for one in `one_in` of the worlds, or for `times` as many.

    They are divided into as few parts of at most `size` as possible, of almost equal size. No part is empty,
    and together they have all seeds. The seeds for the first `after` worlds are left out.
    """
    start, end = (first + (max(1, count * times // one_in) if count else 0) for count in (after, worlds))
    number = -(-(end - start) // size)
    ends = [start + (end - start) * part // max(1, number) for part in range(number + 1)]
    return [range(*pair) for pair in pairwise(ends)]


def lively(worlds: int) -> int:
    """The number of these worlds that are certain to have content: a few may have none."""
    return max(0, worlds - 10)


def shown(part: range) -> str:
    """The name of a part in the name of a test."""
    return f"{part[0]}-{part[-1]}"
