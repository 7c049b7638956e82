"""Rankings, and counts by priority (spec § 4.11)."""

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.ranking import (
    INT32_MAX,
    INT32_MIN,
    NO_PRIORITY,
    PriorityCounts,
    Ranking,
    clamp_priority,
)


def ranked(*keys: int) -> Ranking[str]:
    """A ranking of items that are named after their keys."""
    ranking: Ranking[str] = Ranking()
    for key in keys:
        ranking.put(f"item-{key}", (key,))
    return ranking


def test_a_cleared_ranking_accepts_keys_of_another_type() -> None:
    """A cleared ranking accepts keys that cannot be compared with former keys."""
    ranking = ranked(1, 2)
    ranking.set_aside("item-1")
    ranking.clear()
    ranking.put("item-2", ([1.5],))
    assert ranking.ordered() == ["item-2"]


def test_items_with_equal_keys_are_not_compared() -> None:
    """Items that have the same key one after the other are not compared with each other."""
    ranking: Ranking[object] = Ranking()
    old, new = object(), object()
    ranking.put(old, (1,))
    ranking.discard(old)
    ranking.put(new, (1,))
    assert ranking.top() is new


def test_has_only_is_false_for_an_item_set_aside() -> None:
    """`has_only` is true only for an active item that is the only item in the ranking."""
    ranking = ranked(1, 2)
    assert not ranking.has_only("item-1")
    ranking.set_aside("item-2")
    assert not ranking.has_only("item-1")
    ranking.discard("item-2")
    assert ranking.has_only("item-1")
    ranking.set_aside("item-1")
    assert not ranking.has_only("item-1")


def test_a_changed_key_makes_a_new_entry() -> None:
    """An entry has a new serial number once its key changes, so an outdated entry can be recognized."""
    ranking = ranked(1)
    kept = ranking.entry("item-1")
    assert kept is not None
    ranking.put("item-1", (1,))
    assert ranking.entry("item-1") == kept
    ranking.put("item-1", (2,))
    renewed = ranking.entry("item-1")
    assert renewed is not None
    assert (renewed.key, renewed.serial != kept.serial) == ((2,), True)


def test_only_decreased_keys_are_reported() -> None:
    """`improved` lists entries whose keys have decreased."""
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
    """After any history, a ranking and a sorted list have the same first item."""
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
        assert [one for one in range(6) if one in ranking] == sorted({*active, *aside})
        assert [one for one in range(6) if ranking.is_active(one)] == sorted(active)
        assert ranking.ordered() == [
            one for _, one in sorted((k, i) for i, k in [*active.items(), *aside.items()])
        ]


# The highest of many priorities


@given(st.lists(st.integers(-3, 3), max_size=60))
def test_top_is_the_highest_priority(priorities: list[int]) -> None:
    """After any additions and removals `top` is the maximum, and each change of `top` is reported."""
    counts = PriorityCounts()
    present: list[int] = []
    for step, priority in enumerate(priorities):
        before = counts.top
        if step % 3 == 2 and present:
            gone = present.pop(priority % len(present))
            changed = counts.remove(gone)
        else:
            present.append(priority)
            changed = counts.add(priority)
        assert counts.top == max(present, default=NO_PRIORITY)
        assert changed == (counts.top != before)


def test_priorities_are_within_int32() -> None:
    """An offset beyond the range of int32 is clamped (spec § 4.11)."""
    assert clamp_priority(2**40) == INT32_MAX
    assert clamp_priority(-(2**40)) == INT32_MIN
    assert clamp_priority(7) == 7


def test_the_next_priority_is_found_after_many_removals() -> None:
    """After most priorities are removed, the next highest one is found."""
    counts = PriorityCounts()
    for priority in range(200):
        counts.add(priority)
    for priority in range(10, 190):
        assert not counts.remove(priority)
    for priority in range(199, 189, -1):
        assert counts.top == priority
        assert counts.remove(priority)
    assert counts.top == 9
