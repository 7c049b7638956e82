"""What leads to those whom one blocker blocks, in one ranking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.ranking import Ranking
from licorne_core.scheduling.shelf import Shelf

steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "add", "add", "remove", "set aside", "activate"]),
        st.integers(0, 4),
        st.integers(0, 9),
    ),
    max_size=80,
)


@given(steps)
def test_the_first_is_the_member_with_the_smallest_key(steps: list[tuple[str, int, int]]) -> None:
    """After any changes of keys and members, and whether the members are set aside or not."""
    ranking: Ranking[int] = Ranking()
    keys = {item: 2 * item for item in range(5)}
    reasons = dict.fromkeys(keys, 1)
    for item, key in keys.items():
        ranking.put(item, (key, item))
    shelf = Shelf(ranking)
    for item in keys:
        shelf.add(item, ranking)
    for what, item, key in steps:
        if what == "put":
            ranking.put(item, (key, item))
            keys[item] = key
        elif what == "add":
            shelf.add(item, ranking)
            reasons[item] = reasons.get(item, 0) + 1
        elif what == "remove" and item in reasons:
            shelf.remove(item)
            reasons[item] -= 1
            if not reasons[item]:
                del reasons[item]
        elif what == "set aside":
            ranking.set_aside(item)
        elif what == "activate":
            ranking.activate(item)
        assert shelf.members == reasons
        if reasons:
            expected = min((keys[member], member) for member in reasons)
            assert shelf.first(ranking).key == expected


@pytest.mark.parametrize("every", [1, 2, 3, 20, 30, 37])
def test_keys_that_shrink_are_read_however_rarely_anybody_looks(every: int) -> None:
    """The ranking forgets what became smaller long ago; the shelf starts from its members then."""
    ranking: Ranking[str] = Ranking()
    for number, item in enumerate("abcd"):
        ranking.put(item, (1000 + number,))
        ranking.set_aside(item)
    shelf = Shelf(ranking)
    for item in "abcd":
        shelf.add(item, ranking)
    for step in range(300):
        item = "abcd"[step % 4]
        ranking.put(item, (900 - step,))
        ranking.set_aside(item)
        if step % every == 0:
            assert shelf.first(ranking).item == item


def test_a_member_for_two_reasons_stays_for_the_second() -> None:
    """An application may be blocked itself and lead to somebody inside."""
    ranking: Ranking[str] = Ranking()
    ranking.put("app", (1,))
    shelf = Shelf(ranking)
    shelf.add("app", ranking)
    shelf.add("app", ranking)
    shelf.remove("app")
    assert shelf.first(ranking).item == "app"
    shelf.remove("app")
    assert not shelf.members


def test_a_shelf_on_which_items_come_and_go_finds_those_that_stayed() -> None:
    """What was taken off a thousand times hides nobody behind it."""
    ranking: Ranking[int] = Ranking()
    for item in range(2):
        ranking.put(item, (item,))
    shelf = Shelf(ranking)
    shelf.add(1, ranking)
    for _ in range(1000):
        shelf.add(0, ranking)
        assert shelf.first(ranking).item == 0
        shelf.remove(0)
    assert shelf.first(ranking).item == 1
    assert shelf.members == {1: 1}
