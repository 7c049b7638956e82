"""Those who lack room, found by how much room there is."""

from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.scheduling.node_search.node_heap import FittingIndex

TYPES = ["vcore", "memory", "gpu"]


class Lacking(NamedTuple):
    """Somebody who wants amounts; two of the same number are one."""

    number: int
    items: tuple[tuple[str, int], ...]


wanted = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 6), max_size=3)
rooms = st.dictionaries(st.sampled_from(TYPES), st.integers(-2, 8), max_size=3)


def fits(items: tuple[tuple[str, int], ...], room: Mapping[str, int], *, strict: bool) -> bool:
    """Whether amounts fit; a type that is not named is unlimited, or with `strict` zero."""
    return all(amount <= room.get(name, 0) for name, amount in items if strict or name in room)


@given(
    history=st.lists(st.one_of(wanted, st.integers(0, 10)), max_size=25),
    room=rooms,
    strict=st.booleans(),
)
def test_nobody_who_fits_is_left_out(
    history: list[dict[str, int] | int], room: dict[str, int], *, strict: bool
) -> None:
    """A look at all of them finds nobody else, after any coming and going (a number goes)."""
    index = FittingIndex()
    known: list[Lacking] = []
    for number, step in enumerate(history):
        if isinstance(step, dict):
            known.append(Lacking(number, tuple(sorted(step.items()))))
            index.add(known[-1])
        elif known:
            index.remove(known.pop(step % len(known)))
        assert len(index) == len(known)
        assert list(index) == known
        found = list(index.that_may_fit(room, strict=strict))
        assert len(set(found)) == len(found)
        assert set(found) <= set(known)
        assert {one for one in known if fits(one.items, room, strict=strict)} <= set(found)


def test_of_many_sizes_only_those_that_fit_are_looked_at() -> None:
    """What is freed is compared with the sizes, not with each of them in turn."""
    index = FittingIndex()
    sizes = [Lacking(size, (("memory", 1), ("vcore", size))) for size in range(1, 301)]
    for one in reversed(sizes):
        index.add(one)
    assert list(index.that_may_fit({"vcore": 3, "memory": 50})) == sizes[:3]
    assert list(index.that_may_fit({"vcore": 0})) == []
    assert list(index.that_may_fit({"vcore": 300}, strict=True)) == []


def test_the_type_that_lets_fewest_through_decides() -> None:
    """Plenty of one type does not bring those who lack another one."""
    index = FittingIndex()
    sizes = [Lacking(size, (("memory", 100 - size), ("vcore", size))) for size in range(1, 100)]
    for one in sizes:
        index.add(one)
    assert list(index.that_may_fit({"vcore": 1000, "memory": 2})) == sizes[:-3:-1]


def test_a_type_that_only_some_want_leaves_nobody_out() -> None:
    """Who does not want it may fit, however little there is of it."""
    index = FittingIndex()
    plain, gpu = Lacking(1, (("vcore", 1),)), Lacking(2, (("gpu", 1),))
    index.add(plain)
    index.add(gpu)
    assert plain in index.that_may_fit({"gpu": 0, "vcore": 5}, strict=True)


def test_one_who_wants_nothing_always_fits() -> None:
    """An ask that requires its node may reserve it, however little the node has (spec § 8.7)."""
    index = FittingIndex()
    nothing = Lacking(1, ())
    index.add(nothing)
    index.add(Lacking(2, (("vcore", 9),)))
    assert nothing in index.that_may_fit({}, strict=True)
