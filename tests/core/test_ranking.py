"""Rankings: key order, parking under gates, waking (DESIGN § 2, performance)."""

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.ranking import Ranking


def ranked(*keys: int) -> Ranking[str]:
    """A ranking of items named after their keys."""
    ranking: Ranking[str] = Ranking()
    for key in keys:
        ranking.put(f"item-{key}", (key,))
    return ranking


class Doors:
    """Gates that are opened by hand."""

    def __init__(self, *gates: Hashable) -> None:
        """These are open."""
        self.opened: dict[Hashable, None] = {}
        self.count = 0
        self.open(*gates)

    def open(self, *gates: Hashable) -> None:
        """These are open too."""
        self.opened.update(dict.fromkeys(gates))
        self.count += 1

    def is_open(self, gate: Hashable) -> bool:
        """Whether it was opened."""
        return gate in self.opened


def test_top_is_the_smallest_key() -> None:
    """The item with the smallest key comes first, whatever the order of arrival."""
    assert ranked(3, 1, 2).top() == "item-1"


def test_a_new_key_replaces_the_old_one() -> None:
    """An item that is put again stands under its new key only."""
    ranking = ranked(1, 2)
    ranking.put("item-1", (9,))
    assert ranking.top() == "item-2"
    assert ranking.ordered() == ["item-2", "item-1"]
    assert len(ranking) == 2


def test_discarded_items_are_gone() -> None:
    """An item that was taken out is neither first nor counted."""
    ranking = ranked(1, 2)
    ranking.discard("item-1")
    assert ranking.top() == "item-2"
    assert "item-1" not in ranking
    assert len(ranking) == 1


def test_a_parked_item_waits_for_its_gate() -> None:
    """A parked item is passed over until one of its gates opens, and is counted all along."""
    ranking = ranked(1, 2)
    ranking.park("item-1", ["gate-a", "gate-b"])
    assert ranking.top() == "item-2"
    assert len(ranking) == 2
    ranking.wake(Doors("gate-b"))
    assert ranking.top() == "item-1"


def test_waking_takes_the_first_of_those_parked() -> None:
    """One waking makes one item active, the first in order among those under the gate."""
    ranking, doors = ranked(1, 2, 3), Doors("gate")
    for item in ("item-3", "item-1", "item-2"):
        ranking.park(item, ["gate"])
    ranking.wake(doors)
    assert ranking.top() == "item-1"
    ranking.wake(doors)
    ranking.discard("item-1")
    assert ranking.top() is None, "the first one had not been dealt with"
    ranking.wake(doors)
    assert ranking.top() == "item-2"


def test_of_several_open_gates_the_first_item_under_any_is_woken() -> None:
    """One at a time, in the order of keys, and nobody whose gate has shut."""
    ranking, doors = ranked(1, 2, 3, 4, 5), Doors("a", "b")
    for item, gate in (("item-1", "a"), ("item-2", "b"), ("item-4", "b"), ("item-5", "a")):
        ranking.park(item, [gate])
    order: list[str] = []
    ranking.wake(doors)
    while first := ranking.top():
        order.append(first)
        ranking.discard(first)
        if first == "item-2":
            del doors.opened["b"]
        ranking.wake(doors)
    assert order == ["item-1", "item-2", "item-3", "item-5"]
    assert len(ranking) == 1


def test_what_was_woken_in_vain_does_not_come_again() -> None:
    """An item that is parked under another gate is behind that one only."""
    ranking, doors = ranked(1, 2), Doors("open")
    for item in ("item-1", "item-2"):
        ranking.park(item, ["open"])
    ranking.wake(doors)
    ranking.park("item-1", ["shut"])
    ranking.wake(doors)
    assert ranking.top() == "item-2"


def test_a_gate_that_opens_later_wakes_too() -> None:
    """Whenever another gate opens, all that is parked under open ones is considered anew."""
    ranking, doors = ranked(1, 2), Doors("a")
    ranking.park("item-1", ["b"])
    ranking.wake(doors)
    assert ranking.top() == "item-2"
    doors.open("b")
    ranking.wake(doors)
    assert ranking.top() == "item-1"


def test_keys_of_another_shape_after_clearing() -> None:
    """A ranking that was cleared takes keys that the old ones could not be compared with."""
    ranking = ranked(1, 2)
    ranking.park("item-1", ["gate"])
    ranking.clear()
    ranking.put("item-2", ([1.5],))
    assert ranking.ordered() == ["item-2"]


def test_equal_keys_do_not_compare_items() -> None:
    """Two objects that stand for the same id, one after the other, do no harm."""
    ranking: Ranking[object] = Ranking()
    old, new = object(), object()
    ranking.put(old, (1,))
    ranking.discard(old)
    ranking.put(new, (1,))
    assert ranking.top() is new


def test_putting_a_parked_item_makes_it_active() -> None:
    """Whatever changes an item's key is reason enough to look at it again."""
    ranking = ranked(1)
    ranking.park("item-1", ["gate"])
    ranking.put("item-1", (1,))
    assert ranking.top() == "item-1"


def test_parking_again_and_again_keeps_no_litter() -> None:
    """A gate that never opens does not pile up what was parked under it and woken by others."""
    ranking = ranked(1, 2)
    ranking.park("item-2", ["shut"])
    for _ in range(1_000):
        ranking.park("item-1", ["shut", "open"])
        ranking.wake(Doors("open"))
    assert len(ranking.parked_under["shut"].heap) < 100


def test_a_gate_is_forgotten_with_the_last_that_waits_for_it() -> None:
    """Gates that nothing waits for any more are not handed on, whichever way their items left."""
    ranking = ranked(1, 2, 3)
    for item in ("item-1", "item-2", "item-3"):
        ranking.park(item, [f"gate of {item}", "common"])
    ranking.discard("item-1")
    ranking.put("item-2", (5,))
    assert sorted(map(str, ranking.gates())) == ["common", "gate of item-3"]
    ranking.wake(Doors("gate of item-3"))
    assert list(ranking.gates()) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "discard", "park", "wake"]),
            st.integers(0, 5),
            st.integers(0, 20),
            st.integers(0, 2),
        ),
        max_size=80,
    )
)
def test_ranking_agrees_with_a_sorted_list(steps: list[tuple[str, int, int, int]]) -> None:
    """Against plain dictionaries: the same first item after any history."""
    ranking: Ranking[int] = Ranking()
    active: dict[int, int] = {}
    parked: dict[int, tuple[int, int]] = {}
    doors = Doors()
    for what, item, key, gate in steps:
        if what == "put":
            ranking.put(item, (key, item))
            parked.pop(item, None)
            active[item] = key
        elif what == "discard":
            ranking.discard(item)
            active.pop(item, None)
            parked.pop(item, None)
        elif what == "park" and item in active:
            ranking.park(item, [gate])
            parked[item] = (active.pop(item), gate)
        elif what == "wake":
            doors.opened.clear()
            doors.open(gate)
            ranking.wake(doors)
            under = sorted((k, i) for i, (k, g) in parked.items() if g == gate)
            if under and all(under[0] < (k, i) for i, k in active.items()):
                woken = under[0][1]
                active[woken] = parked.pop(woken)[0]
        first = min(((key, item) for item, key in active.items()), default=None)
        assert ranking.top() == (None if first is None else first[1])
        assert len(ranking) == len(active) + len(parked)
