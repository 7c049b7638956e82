"""Every property plays at least one world, and the parts of a run cover all worlds."""

from itertools import chain

import pytest

from support.seeds import lively, parts, positive


@pytest.mark.parametrize("worlds", [1, 2, 19, 60, 99, 800, 5000])
@pytest.mark.parametrize("one_in", [1, 10, 100])
def test_parts_cover_all_worlds_and_none_is_empty(worlds: int, one_in: int) -> None:
    """The parts follow one another without a gap, and even the smallest share has at least one world."""
    found = parts(worlds, first=7_000_000, one_in=one_in, size=20)
    seeds = list(chain.from_iterable(found))
    assert seeds == list(range(7_000_000, 7_000_000 + max(1, worlds // one_in)))
    sizes = [len(part) for part in found]
    assert 1 <= min(sizes) <= max(sizes) <= 20
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("one_in", [1, 10, 100])
def test_first_and_further_worlds_cover_all_worlds(one_in: int) -> None:
    """Worlds played later continue the worlds played first without a gap; there may be none."""
    first = parts(40, one_in=one_in, size=20)
    further = parts(120, 40, one_in=one_in, size=20)
    assert list(chain.from_iterable([*first, *further])) == list(range(max(1, 120 // one_in)))
    assert parts(40, 40, one_in=one_in) == []
    assert all(further)


def test_cheap_worlds_are_played_more_often() -> None:
    """A property may play a multiple of the number of worlds."""
    assert list(chain.from_iterable(parts(7, times=10, size=20))) == list(range(70))


def test_a_few_worlds_without_events_are_accepted() -> None:
    """Up to ten worlds may have no events; of more worlds, all but ten must have some."""
    assert [lively(count) for count in (1, 10, 11, 50)] == [0, 0, 1, 40]


@pytest.mark.parametrize("text", ["0", "-3", "many"])
def test_only_a_positive_number_of_worlds_is_accepted(text: str) -> None:
    """Zero, a negative number and a word are refused."""
    with pytest.raises(ValueError, match=text):
        positive(text)
