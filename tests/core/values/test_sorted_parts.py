"""A sequence in sorted parts equals a sorted list."""

from random import Random

import pytest

from licorne_core.values.sorted_parts import MOST, SortedParts


@pytest.mark.parametrize("kinds", [3, 10**6], ids=["mostly equal", "mostly different"])
def test_sorted_parts_equal_a_sorted_list(kinds: int) -> None:
    """After random additions and removals, up to several parts and down to none, the values are sorted."""
    random, there, parts = Random(kinds), list[int](), SortedParts[int]()
    for most in (4 * MOST, 0, MOST, 0):
        while len(there) != most:
            if len(there) < most:
                there.append(random.randrange(kinds))
                parts.add(there[-1])
            else:
                parts.remove(there.pop(random.randrange(len(there))))
            if not len(there) % 100:
                assert list(parts) == sorted(there)
                assert parts.first() == min(there, default=None)
