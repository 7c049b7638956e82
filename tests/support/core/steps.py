"""What is read in steps, read in one go."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def last(steps: Iterable[T | None]) -> T:
    """What comes of the steps."""
    (made,) = [made for made in steps if made is not None]
    return made


def listed(steps: Iterable[T | None]) -> list[T]:
    """What comes of the steps, in order."""
    return [made for made in steps if made is not None]
