"""Which random worlds a property is tried on, in parts that several processes can share."""

from itertools import pairwise

PART = 50
"""Worlds in a part, unless the property says otherwise."""


def positive(text: str) -> int:
    """A number of worlds as it is given; raises ValueError for none at all."""
    count = int(text)
    if count < 1:
        raise ValueError(f"at least one world must be played, not {text}")
    return count


def parts(
    worlds: int, after: int = 0, *, first: int = 0, one_in: int = 1, times: int = 1, size: int = PART
) -> list[range]:
    """The seeds of one in so many of the worlds, or of so many times as many, from the first seed on.

    They are cut into parts of at most that size, as few and as even as possible. No part is empty,
    and together they are the seeds without a gap. Those of the worlds up to `after` are left out.
    """
    start, end = (first + (max(1, count * times // one_in) if count else 0) for count in (after, worlds))
    number = -(-(end - start) // size)
    ends = [start + (end - start) * part // max(1, number) for part in range(number + 1)]
    return [range(*pair) for pair in pairwise(ends)]


def lively(worlds: int) -> int:
    """The number of these worlds that certainly have content: a few may be quiet."""
    return max(0, worlds - 10)


def shown(part: range) -> str:
    """The name of a part in the name of a test."""
    return f"{part[0]}-{part[-1]}"
