"""Rankings: key order, and what is set aside (DESIGN § 2, performance)."""

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.ranking import Ranking


def ranked(*keys: int) -> Ranking[str]:
    """A ranking of items named after their keys."""
    ranking: Ranking[str] = Ranking()
    for key in keys:
        ranking.put(f"item-{key}", (key,))
    return ranking


def first(ranking: Ranking[str]) -> str | None:
    """The first active item."""
    return ranking.top()


def test_top_is_the_smallest_key() -> None:
    """The item with the smallest key comes first, whatever the order of arrival."""
    assert first(ranked(3, 1, 2)) == "item-1"


def test_a_new_key_replaces_the_old_one() -> None:
    """An item that is put again stands under its new key only."""
    ranking = ranked(1, 2)
    ranking.put("item-1", (9,))
    assert first(ranking) == "item-2"
    assert ranking.ordered() == ["item-2", "item-1"]
    assert len(ranking) == 2


def test_an_item_that_is_not_first_moves_back_too() -> None:
    """Its former place does not count, even when all that stood before it is gone."""
    ranking = ranked(1, 2, 3)
    ranking.put("item-2", (9,))
    ranking.discard("item-1")
    assert first(ranking) == "item-3"


def test_discarded_items_are_gone() -> None:
    """An item that was taken out is neither first nor counted, active or set aside."""
    ranking = ranked(1, 2, 3)
    ranking.set_aside("item-3")
    ranking.discard("item-1")
    ranking.discard("item-3")
    assert first(ranking) == "item-2"
    assert "item-1" not in ranking
    assert ranking.ordered() == ["item-2"]


def test_an_item_set_aside_keeps_its_place() -> None:
    """It is passed over until it is activated, and then stands where it stood."""
    ranking = ranked(1, 2)
    ranking.set_aside("item-1")
    assert first(ranking) == "item-2"
    assert len(ranking) == 2
    assert not ranking.is_active("item-1")
    ranking.activate("item-1")
    assert first(ranking) == "item-1"


def test_putting_an_item_makes_it_active() -> None:
    """Whatever changes an item's key is reason enough to look at it again."""
    ranking = ranked(1)
    ranking.set_aside("item-1")
    ranking.put("item-1", (1,))
    assert first(ranking) == "item-1"


def test_what_is_not_ranked_cannot_be_activated() -> None:
    """Activating an item that was taken out does not bring it back."""
    ranking = ranked(1)
    ranking.set_aside("item-1")
    ranking.discard("item-1")
    ranking.activate("item-1")
    assert first(ranking) is None


def test_keys_of_another_shape_after_clearing() -> None:
    """A ranking that was cleared takes keys that the old ones could not be compared with."""
    ranking = ranked(1, 2)
    ranking.set_aside("item-1")
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


def test_an_item_that_waits_is_not_alone() -> None:
    """The key of an item decides nothing only while it is active and no other one is ranked."""
    ranking = ranked(1, 2)
    assert not ranking.has_only("item-1")
    ranking.set_aside("item-2")
    assert not ranking.has_only("item-1")
    ranking.discard("item-2")
    assert ranking.has_only("item-1")
    ranking.set_aside("item-1")
    assert not ranking.has_only("item-1")


def test_an_entry_is_another_one_under_a_new_key() -> None:
    """Whoever has kept an entry sees by its number whether it is still the valid one."""
    ranking = ranked(1)
    kept = ranking.entry("item-1")
    assert kept is not None
    ranking.put("item-1", (1,))
    assert ranking.entry("item-1") == kept
    ranking.put("item-1", (2,))
    renewed = ranking.entry("item-1")
    assert renewed is not None
    assert (renewed.key, renewed.serial != kept.serial) == ((2,), True)


def test_a_smaller_key_is_told_and_a_larger_one_is_not() -> None:
    """Whoever keeps items in heaps of its own reads what has come earlier in the order."""
    ranking = ranked(5, 6)
    ranking.set_aside("item-6")
    ranking.put("item-5", (4,))
    ranking.put("item-6", (3,))
    ranking.put("item-5", (7,))
    assert [entry.item for entry in ranking.improved] == ["item-5", "item-6"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "discard", "set aside", "activate"]),
            st.integers(0, 5),
            st.integers(0, 20),
        ),
        max_size=80,
    )
)
def test_ranking_agrees_with_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    """Against plain dictionaries: the same first item after any history."""
    ranking: Ranking[int] = Ranking()
    active: dict[int, int] = {}
    aside: dict[int, int] = {}
    for what, item, key in steps:
        if what == "put":
            ranking.put(item, (key, item))
            aside.pop(item, None)
            active[item] = key
        elif what == "discard":
            ranking.discard(item)
            active.pop(item, None)
            aside.pop(item, None)
        elif what == "set aside":
            ranking.set_aside(item)
            if item in active:
                aside[item] = active.pop(item)
        else:
            ranking.activate(item)
            if item in aside:
                active[item] = aside.pop(item)
        expected = min(((key, item) for item, key in active.items()), default=None)
        assert ranking.top() == (None if expected is None else expected[1])
        assert len(ranking) == len(active) + len(aside)
        assert ranking.ordered() == [
            one for _, one in sorted((k, i) for i, k in [*active.items(), *aside.items()])
        ]
